package inbox

import (
	"context"
	"errors"
	"time"

	"github.com/redo-go/redo/store"
)

// The pause between two tries of a write doubles from the first to the last.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

// settle completes the event under the attempt's lease. Without a record of the success the handler would run again.
// So settle tries again until StoreTimeout has passed, and meanwhile renews the lease.
func (a *attempt) settle(ctx context.Context) error {
	ctx, done := a.in.storeContext(ctx)
	defer done()
	o, unsure := a.outcome(), false
	return a.in.repeat(ctx, func() error {
		err := a.in.st.Complete(ctx, a.lease, o)
		unsure = unsure || errors.Is(err, store.ErrUnknown)
		if err != nil && unsure {
			err = a.verify(ctx, err)
		}
		if ttl := a.in.config.lease; unsettled(err) && time.Since(a.held) >= ttl/3 {
			asked := time.Now()
			if a.in.st.Extend(ctx, a.lease, ttl, nil) == nil { // the next Complete finds out that the lease is lost
				a.held = asked
			}
		}
		return err
	})
}

// record writes the note of a failure. The lease ends d from then. If the payload were not kept, and the producer gave
// up, the event would be lost. So record tries again until StoreTimeout has passed.
func (a *attempt) record(ctx context.Context, d time.Duration) error {
	ctx, done := a.in.storeContext(ctx)
	defer done()
	return a.in.repeat(ctx, func() error { return a.write(ctx, d) })
}

// verify returns nil if the record shows a write whose response was lost. It returns store.ErrLost if the write can't
// be made any more, and otherwise the cause with store.ErrUnknown.
func (a *attempt) verify(ctx context.Context, cause error) error {
	rec, err := a.in.st.Find(ctx, a.lease.ID)
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && rec.Fence != a.lease.Fence:
		return store.ErrLost
	case err != nil:
		return errors.Join(store.ErrUnknown, err)
	case rec.State == store.StatePending:
		return errors.Join(store.ErrUnknown, cause) // it was not made: the next try makes it
	}
	return nil
}

// unsettled reports whether another try of a write could have another result.
func unsettled(err error) bool {
	return err != nil && !errors.Is(err, store.ErrLost) && !errors.Is(err, store.ErrInvalid)
}

// repeat makes a write again, with pauses, until it is settled or the context ends. It returns the last error.
func (in *Inbox) repeat(ctx context.Context, write func() error) error {
	last := max(firstPause, min(lastPause, in.config.lease/6)) // so that a lease is renewed in time
	for pause := firstPause; ; pause = min(2*pause, last) {
		err := write()
		if !unsettled(err) {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}
