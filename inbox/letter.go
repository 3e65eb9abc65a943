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
	// ReceivedAt is when the event was first received, FailedAt when it was given up, by the store's clock.
	ReceivedAt time.Time
	FailedAt   time.Time
	Attempts   int
	// Failure is the text of the last error, at most 4 KiB of it.
	Failure string
	// Unknown: nobody knows what the handler did, or how often. It is not redriven before somebody has looked, and has called
	// [Inbox.Reopen] or [Inbox.Drop].
	Unknown bool
}

// DeadLetters yields the dead letters of a source, oldest first; those of every source when it is empty. The loop's body
// may redrive them. An error is yielded last, with a zero DeadLetter; a letter that can't be read ends the list.
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

// Redrive handles a dead letter again, as one more attempt under its own source and id, so that an event which was
// delivered and handled meanwhile is not handled twice: the receipt is Replayed then. The letter is deleted once the
// event is handled; when the handler fails it stays, with the new error, and the receipt is DeadLettered.
//
// A letter that is Unknown is refused with taxonomy.OutcomeUnknown, and nothing is done, until somebody has reopened it.
// The error matches ErrNoLetter when there is no such letter, and is otherwise as that of Receive. With a receipt that
// is Processed or Replayed it says only that the letter could not be deleted: redrive it once more.
func (in *Inbox) Redrive(ctx context.Context, source, id string, h Handler) (Receipt, error) {
	return in.redrive(ctx, source, id, plain{in, h})
}

func (in *Inbox) redrive(ctx context.Context, source, id string, m mode) (Receipt, error) {
	ev := Event{Source: source, ID: id}
	rec, err := in.letter(ctx, ev)
	if err != nil {
		return Receipt{}, err
	}
	n, err := decodeNote(rec.Meta)
	if err != nil {
		return Receipt{}, ev.fail(Unreadable, 0, err)
	}
	if n.unknown {
		return Receipt{}, ev.fail(taxonomy.OutcomeUnknown, n.attempts, errBarred)
	}
	ev.Payload = n.payload
	if err := in.clear(ctx, ev); err != nil {
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

// drop deletes the letter as it was found. One that is gone, or that was written anew, is left to whoever did that.
func (in *Inbox) drop(ctx context.Context, rec store.Record) error {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), in.storeTimeout)
	defer done()
	if err := in.st.Release(ctx, rec.Lease()); err != nil && !errors.Is(err, store.ErrLost) {
		return err
	}
	return nil
}

// clear makes room for one more attempt at an event that is settled as failed. A delivery that comes right after it is
// an attempt like any other; the letter stands until one has succeeded.
func (in *Inbox) clear(ctx context.Context, ev Event) error {
	rec, err := in.st.Find(ctx, ev.id())
	if errors.Is(err, store.ErrNotFound) || err == nil && rec.State != store.StateFailed {
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
