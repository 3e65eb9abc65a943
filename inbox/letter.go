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

// A FailedEvent is a dead letter, or an event that waits for another delivery after a failure. All times are by the
// store's clock.
type FailedEvent struct {
	Source      string
	ID          string
	Payload     []byte // never nil
	PayloadHash store.Fingerprint
	ReceivedAt  time.Time // when the event was first received
	FailedAt    time.Time // when it failed or became a dead letter, or when the attempt began that is being made
	DueAt       time.Time // when the inbox accepts another delivery; zero for a dead letter, or if it does now
	Attempts    int
	Failure     string // the text of the last error, at most 2 KiB of it
	// Unknown: the handler's effect is unknown. An operator finds out whether it was made, and then calls
	// [Inbox.Drop].
	Unknown bool
}

// DeadLetters yields the dead letters of a source. An empty source yields those of every source. The loop's body may
// redrive them.
//
// A letter that can't be read is yielded with only its source and id, and an [*Error] with the code Unreadable. The
// list goes on. An error with a zero FailedEvent ends the list.
func (in *Inbox) DeadLetters(ctx context.Context, source string) iter.Seq2[FailedEvent, error] {
	return in.failed(ctx, source, func(n note) bool { return n.State == dead })
}

// Waiting is DeadLetters for the events that have failed and are no dead letters. Call [Inbox.Redrive] for those
// whose producer has given up.
func (in *Inbox) Waiting(ctx context.Context, source string) iter.Seq2[FailedEvent, error] {
	return in.failed(ctx, source, func(n note) bool { return n.State != dead && n.Kept })
}

// failed yields the events of a source that are not settled, if selected reports true or the note can't be read.
func (in *Inbox) failed(ctx context.Context, source string, selected func(note) bool) iter.Seq2[FailedEvent, error] {
	scopes := []string{eventScope + source, unknownScope + source}
	if source == "" {
		scopes = []string{""}
	}
	return func(yield func(FailedEvent, error) bool) {
		for _, scope := range scopes {
			for rec, err := range in.st.Pending(ctx, scope) {
				if err != nil && rec.ID == (store.ID{}) {
					yield(FailedEvent{}, &Error{Code: taxonomy.Unavailable, Err: err})
					return
				}
				f, ours := keptIn(rec.ID)
				if !ours {
					continue
				}
				n, unreadable := decodeNote(rec.Meta)
				switch {
				case err != nil || unreadable != nil:
					err = Event{Source: f.Source, ID: f.ID}.fail(Unreadable, errors.Join(err, unreadable))
				case !selected(n):
					continue
				default:
					f.complete(rec, n)
				}
				if !yield(f, err) {
					return
				}
			}
		}
	}
}

// keptIn returns the source and the id of the event in a record. It reports false if the record is not an inbox's.
func keptIn(id store.ID) (f FailedEvent, ours bool) {
	f.ID = id.Key
	if f.Source, ours = strings.CutPrefix(id.Scope, eventScope); !ours {
		f.Source, ours = strings.CutPrefix(id.Scope, unknownScope)
		f.Unknown = ours
	}
	return f, ours
}

func (f *FailedEvent) complete(rec store.Record, n note) {
	f.Payload, f.PayloadHash, f.Attempts, f.Failure = n.payload, rec.Fingerprint, n.Attempts, n.Err
	f.ReceivedAt, f.FailedAt = n.Received, n.Changed
	if rec.LeaseLeft() > 0 && n.State != dead {
		f.DueAt = rec.LeaseUntil.UTC()
	}
}

// Redrive handles a dead letter or a waiting event again, as one more attempt under its own source and id. The event
// need not have rested. If it was handled meanwhile, it is not handled twice: the receipt is Replayed. If the handler
// fails, the event is a dead letter with the new error, and the receipt is DeadLettered.
//
// A letter that is Unknown is refused with taxonomy.OutcomeUnknown, and nothing is done. The error matches
// ErrNoLetter if there is no such event. Otherwise it is an error of Receive.
func (in *Inbox) Redrive(ctx context.Context, source, id string, h Handler) (Receipt, error) {
	return in.redrive(ctx, source, id, plain{in, h})
}

func (in *Inbox) redrive(ctx context.Context, source, id string, m mode) (Receipt, error) {
	ev := Event{Source: source, ID: id}
	rec, err := in.find(ctx, ev)
	if err != nil {
		return Receipt{}, err
	}
	if rec.ID == ev.unknown() || rec.OutcomeUnknown() {
		return Receipt{}, ev.fail(taxonomy.OutcomeUnknown, errUnknown)
	}
	stored := rec.Meta
	if rec.State != store.StatePending {
		stored = rec.Result
	}
	n, err := decodeNote(stored)
	switch {
	case err != nil:
		return Receipt{}, ev.fail(Unreadable, err)
	case rec.State != store.StatePending:
		return n.receipt(ev, rec.Fingerprint, Replayed), nil
	case !n.Kept:
		return Receipt{}, noLetter(ev)
	case n.rests(rec): // the rest ends now
		if err := in.st.Extend(ctx, rec.Lease(), 0, nil); err != nil && !errors.Is(err, store.ErrLost) {
			return Receipt{}, ev.fail(taxonomy.Unavailable, err).after(n.Attempts)
		}
	}
	ev.Payload = n.payload
	return in.receive(ctx, ev, call{redriven: true}, m)
}

// Drop gives up a dead letter or a waiting event. Further deliveries of it are acknowledged and not handled, for the
// retention. The error matches ErrNoLetter if there is no such event, and taxonomy.InFlight if the event is being
// handled. After any other error call Drop again.
//
// A letter that is Unknown is deleted. A later delivery of its event makes it again.
func (in *Inbox) Drop(ctx context.Context, source, id string) error {
	ev := Event{Source: source, ID: id}
	rec, err := in.find(ctx, ev)
	if err == nil && rec.State != store.StatePending {
		err = noLetter(ev)
	}
	if err != nil {
		return err
	}
	if rec.ID != ev.unknown() {
		return in.discard(ctx, ev, rec)
	}
	ctx, done := in.storeContext(ctx)
	defer done()
	if err := in.st.Release(ctx, rec.Lease()); err != nil && !errors.Is(err, store.ErrLost) {
		return ev.failStore(0, err)
	}
	return nil
}

// discard settles a pending event as failed.
func (in *Inbox) discard(ctx context.Context, ev Event, rec store.Record) error {
	n, err := decodeNote(rec.Meta)
	if left := rec.LeaseLeft(); left > 0 && (err != nil || !n.rests(rec)) {
		e := ev.fail(taxonomy.InFlight, nil).after(n.Attempts)
		e.RetryAfter = left
		return e
	}
	if n.Err == "" {
		n.Err = errNoEnd
	}
	if n.State != dead {
		n.Changed = rec.ReadAt.UTC()
	}
	ctx, done := in.storeContext(ctx)
	defer done()
	if err := in.st.Complete(ctx, rec.Lease(), in.outcome(true, n)); err != nil {
		return ev.failStore(n.Attempts, err)
	}
	return nil
}

// find returns the letter of the event's unknown outcome, or else the event's record, or an error that matches
// ErrNoLetter.
func (in *Inbox) find(ctx context.Context, ev Event) (store.Record, error) {
	if err := ev.validate(); err != nil {
		return store.Record{}, err
	}
	rec, err := in.st.Find(ctx, ev.unknown())
	if errors.Is(err, store.ErrNotFound) {
		rec, err = in.st.Find(ctx, ev.id())
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		err = noLetter(ev)
	case err != nil:
		err = ev.fail(taxonomy.Unavailable, err)
	}
	return rec, err
}

func noLetter(ev Event) error { return fmt.Errorf("%w: %q/%q", ErrNoLetter, ev.Source, ev.ID) }
