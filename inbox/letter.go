package inbox

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// A DeadLetter is an event that could not be handled.
type DeadLetter struct {
	Source      string
	ID          string
	Payload     []byte // never nil
	PayloadHash store.Fingerprint
	// ReceivedAt is when the event was first received. FailedAt is when it became a dead letter. Both are by the
	// store's clock.
	ReceivedAt time.Time
	FailedAt   time.Time
	Attempts   int
	// Failure is the text of the last error, at most 4 KiB of it.
	Failure string
	// Unknown: the handler's effect is unknown. An operator finds out whether it was made, and then calls
	// [Inbox.Drop] or [Inbox.RedriveUnknown].
	Unknown bool
}

// DeadLetters yields the dead letters of a source, oldest first. An empty source yields those of every source. The
// loop's body may redrive them. An error is yielded last, with a zero DeadLetter. A letter that can't be read ends
// the list.
func (in *Inbox) DeadLetters(ctx context.Context, source string) iter.Seq2[DeadLetter, error] {
	scope := ""
	if source != "" {
		scope = deadScope + source
	}
	return func(yield func(DeadLetter, error) bool) {
		for rec, err := range in.st.Pending(ctx, scope) {
			if err != nil {
				yield(DeadLetter{}, &Error{Code: taxonomy.Unavailable, Err: err})
				return
			}
			from, ok := strings.CutPrefix(rec.ID.Scope, deadScope)
			if !ok {
				continue
			}
			n, err := decodeNote(rec.Meta)
			if err != nil {
				yield(DeadLetter{}, Event{Source: from, ID: rec.ID.Key}.fail(Unreadable, 0, err))
				return
			}
			l := DeadLetter{
				Source: from, ID: rec.ID.Key, Payload: n.payload, PayloadHash: rec.Fingerprint,
				ReceivedAt: n.received, FailedAt: n.processed, Attempts: n.attempts, Failure: n.err, Unknown: n.unknown,
			}
			if !yield(l, nil) {
				return
			}
		}
	}
}

// Redrive handles a dead letter again, as one more attempt under its own source and id. If the event was delivered
// and handled meanwhile, it is not handled twice: the receipt is Replayed. The letter is deleted once the event is
// handled. If the handler fails, the letter stays with the new error, and the receipt is DeadLettered.
//
// A letter that is Unknown is refused with taxonomy.OutcomeUnknown, and nothing is done: see [Inbox.RedriveUnknown].
// The error matches ErrNoLetter if there is no such letter. Otherwise it is an error of Receive. An error beside a
// receipt that is Processed or Replayed means that only the letter could not be deleted: call Redrive again.
func (in *Inbox) Redrive(ctx context.Context, source, id string, h Handler) (Receipt, error) {
	return in.redrive(ctx, source, id, plain{in, h}, false)
}

// RedriveUnknown is Redrive, for a letter that is Unknown too. Call it only if the handler's effect was not made, or
// was undone: the handler runs again. If the effect was made, call [Inbox.Drop].
func (in *Inbox) RedriveUnknown(ctx context.Context, source, id string, h Handler) (Receipt, error) {
	return in.redrive(ctx, source, id, plain{in, h}, true)
}

// redrive redrives the letter. A letter that is unknown is refused unless decided is set.
func (in *Inbox) redrive(ctx context.Context, source, id string, m mode, decided bool) (Receipt, error) {
	ev := Event{Source: source, ID: id}
	rec, err := in.letter(ctx, ev)
	if err != nil {
		return Receipt{}, err
	}
	n, err := decodeNote(rec.Meta)
	if err != nil {
		return Receipt{}, ev.fail(Unreadable, 0, err)
	}
	if n.unknown && !decided {
		return Receipt{}, ev.fail(taxonomy.OutcomeUnknown, n.attempts, errUnknown)
	}
	ev.Payload = n.payload
	if err := in.clear(ctx, ev, decided); err != nil {
		return Receipt{}, ev.fail(taxonomy.Unavailable, n.attempts, err)
	}
	r, err := in.receive(ctx, ev, n, m)
	if err != nil || r.Dead() {
		return r, err
	}
	if err := in.drop(ctx, rec); err != nil {
		return r, ev.fail(taxonomy.Unavailable, r.Attempts, err)
	}
	return r, nil
}

// letter finds the letter's record.
func (in *Inbox) letter(ctx context.Context, ev Event) (store.Record, error) {
	if err := ev.validate(); err != nil {
		return store.Record{}, err
	}
	rec, err := in.st.Find(ctx, ev.letter())
	switch {
	case errors.Is(err, store.ErrNotFound):
		return store.Record{}, fmt.Errorf("%w: %q/%q", ErrNoLetter, ev.Source, ev.ID)
	case err != nil:
		return store.Record{}, ev.fail(taxonomy.Unavailable, 0, err)
	}
	return rec, nil
}

// drop deletes the letter that was found. If another call has deleted or rewritten the letter, drop changes nothing.
func (in *Inbox) drop(ctx context.Context, rec store.Record) error {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), in.storeTimeout)
	defer done()
	if err := in.st.Release(ctx, rec.Lease()); err != nil && !errors.Is(err, store.ErrLost) {
		return err
	}
	return nil
}

// clear removes the event's record if it is settled as failed, or if its outcome is unknown and an operator has
// decided. The letter stays until an attempt has succeeded. The next delivery is an attempt too.
func (in *Inbox) clear(ctx context.Context, ev Event, decided bool) error {
	rec, err := in.st.Find(ctx, ev.id())
	unsettled := rec.State == store.StateFailed || decided && rec.OutcomeUnknown()
	if errors.Is(err, store.ErrNotFound) || err == nil && !unsettled {
		return nil
	}
	if err != nil {
		return err
	}
	if err := in.st.Forget(ctx, rec.Lease()); err != nil && !errors.Is(err, store.ErrLost) {
		return err
	}
	return nil
}
