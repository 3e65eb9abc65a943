package server

import (
	"context"
	"errors"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/store"
)

// A byLease is the ownership of a key by a lease on its record, which is renewed as long as the handler runs.
type byLease struct{ call *execution }

// context implements ownership.
func (l byLease) context() context.Context { return l.call.hold() }

// settle implements ownership. What the handler has done can't be undone, so a record that can't be settled is left
// pending, and never released.
func (l byLease) settle(o store.Outcome, _ bool) error {
	return l.persist(o, false)
}

// giveBack implements ownership. When it fails the lease runs out, and the next request takes the key over.
func (l byLease) giveBack() error {
	err := l.persist(store.Outcome{}, true)
	if err == nil {
		l.call.event.To = 0
	}
	return err
}

// unfinished implements ownership: the effect stands, and there is no response to show.
func (byLease) unfinished(status int) []byte { return wire.AppendTombstone(nil, status) }

// handBack implements ownership: it gives up the lease, and not the record. Failing that the lease runs out.
func (l byLease) handBack() { _ = l.call.extend(l.call.visit(), 0, nil) }

// checkpoint implements ownership. It renews the lease too.
func (l byLease) checkpoint(ctx context.Context, meta []byte) error {
	if meta == nil {
		meta = []byte{} // nil would keep the earlier note
	}
	visit, done := context.WithTimeout(ctx, l.call.storeTimeout)
	defer done()
	return l.call.extend(visit, l.call.leaseTTL, meta)
}

// persist makes the one write that ends the lease, with a few tries within StoreTimeout.
func (l byLease) persist(o store.Outcome, release bool) error {
	c := l.call
	ctx := c.visit()
	defer c.rest()
	pause, unsure := settlePause, false
	for try := 1; ; try++ {
		err := l.write(ctx, o, release)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, store.ErrUnknown), unsure && errors.Is(err, store.ErrLost):
			// Once an answer was lost, a lease that is gone may be gone because the write was made.
			unsure = true
			err = l.verify(ctx, release)
		}
		if err == nil || errors.Is(err, store.ErrLost) || errors.Is(err, store.ErrInvalid) || try == settleTries {
			c.err = err
			return err
		}
		if !sleep(ctx, pause) {
			c.err = err
			return err
		}
		pause *= 2
	}
}

func (l byLease) write(ctx context.Context, o store.Outcome, release bool) error {
	if release {
		return l.call.release(ctx)
	}
	return l.call.complete(ctx, o)
}

// verify reads from the record whether a write whose answer was lost has been made.
func (l byLease) verify(ctx context.Context, release bool) error {
	lease := l.call.lease
	rec, err := l.call.find(ctx, lease.ID)
	switch {
	case errors.Is(err, store.ErrNotFound) && release:
		return nil
	case errors.Is(err, store.ErrNotFound):
		return store.ErrLost
	case err != nil:
		return errors.Join(store.ErrUnknown, err)
	case rec.Fence != lease.Fence:
		return store.ErrLost
	case rec.State == store.StatePending:
		return store.ErrUnknown // it was not made: once more
	}
	return nil
}
