package inbox

import (
	"context"
	"errors"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// An attempt is one attempt at an event that this delivery holds.
type attempt struct {
	in       *Inbox
	ev       Event
	claim    store.Claim
	lease    store.Lease
	note     note
	redriven bool
	read     time.Time // the store's clock when the event was reserved
	since    time.Time // this process's clock at the same time
}

// count writes the attempt's number into the event's record. For a new event, Reserve has already written it.
func (a *attempt) count(ctx context.Context, g store.Grant, lease time.Duration) error {
	a.read, a.since = g.Record.ReadAt, time.Now()
	if g.Verdict == store.Acquired {
		if a.note.received.IsZero() {
			a.note.received = g.Record.CreatedAt
		}
		return nil
	}
	earlier, err := decodeNote(g.Record.Meta)
	if err != nil {
		// Another release wrote it, and can read the count. Give the record back.
		_ = a.in.st.Extend(ctx, a.lease, 0, nil)
		return a.ev.fail(Unreadable, 0, err)
	}
	if left := a.imminent(earlier, g, lease); left > 0 {
		e := a.ev.fail(taxonomy.InFlight, earlier.attempts, nil)
		e.RetryAfter = left
		return e
	}
	a.note.attempts = max(earlier.attempts+1, a.note.attempts)
	a.note.err = earlier.err
	if lease == 0 {
		a.note.processed = g.Record.ReadAt
	}
	if !earlier.received.IsZero() {
		a.note.received = earlier.received
	} else if a.note.received.IsZero() {
		a.note.received = g.Record.CreatedAt
	}
	if err := a.in.st.Extend(ctx, a.lease, lease, a.note.encode()); err != nil {
		return a.failStore(err)
	}
	return nil
}

// imminent returns how long the last attempt may still need to begin its transaction. The attempt has no lease and is
// counted before its transaction opens, so only the time of the count shows this. Until then the attempt is not
// treated as dead.
func (a *attempt) imminent(last note, g store.Grant, lease time.Duration) time.Duration {
	if lease > 0 || a.redriven || last.attempts < a.in.maxAttempts {
		return 0
	}
	counted := last.processed
	if counted.IsZero() {
		counted = g.Record.CreatedAt // by Reserve, when it was new
	}
	return counted.Add(a.in.config.lease).Sub(g.Record.ReadAt)
}

// now returns the store's clock: its last reading and the time since then by this process's clock.
func (a *attempt) now() time.Time { return a.read.Add(time.Since(a.since)).UTC() }

// outcome returns the outcome with which the event is settled now.
func (a *attempt) outcome(failed bool) store.Outcome {
	a.note.processed = a.now()
	if !failed {
		a.note.err = ""
	}
	return store.Outcome{Failed: failed, Result: a.note.encode(), Retention: a.in.retention}
}

// finish returns the result of the delivery.
func (a *attempt) finish(ctx context.Context, err error) (Receipt, error) {
	if err == nil {
		return a.note.receipt(a.ev, a.claim.Fingerprint, Processed), nil
	}
	if u, ok := errors.AsType[*unknownError](err); ok {
		return u.bury(ctx, a)
	}
	failed, ok := err.(*handlerError) //nolint:errorlint // it is never wrapped, and what it wraps is the handler's
	if !ok {
		if s, ok := errors.AsType[*settledError](err); ok {
			return s.receipt, nil
		}
		return Receipt{}, a.failStore(err)
	}
	a.note.err = failed.Error()
	if a.note.err == "" {
		a.note.err = "an error without a text"
	}
	if a.redriven || a.note.attempts >= a.in.maxAttempts || errors.Is(failed, ErrRejected) {
		return a.bury(ctx)
	}
	e := a.ev.fail(HandlerFailed, a.note.attempts, failed.err)
	e.RetryAfter = a.pause(ctx)
	return Receipt{}, e
}

// pause lets the event rest, and returns for how long. If the pause can't be written, the lease expires instead, or
// is given up already. The attempt stays counted.
func (a *attempt) pause(ctx context.Context) time.Duration {
	d := a.in.rest(a.note.attempts)
	_ = a.extend(ctx, d)
	return d
}

// extend writes the note, with the lease ending d from now.
func (a *attempt) extend(ctx context.Context, d time.Duration) error {
	ctx, done := a.visit(ctx)
	defer done()
	return a.in.st.Extend(ctx, a.lease, d, a.note.encode())
}

// visit returns a context for a write that the end of the delivery must not stop.
func (a *attempt) visit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), a.in.storeTimeout)
}

// settle completes the event under the attempt's lease. If the response is lost, it reads the record.
func (a *attempt) settle(ctx context.Context, o store.Outcome) error {
	ctx, done := a.visit(ctx)
	defer done()
	err := a.in.st.Complete(ctx, a.lease, o)
	if errors.Is(err, store.ErrUnknown) {
		return a.confirm(ctx, a.lease, err)
	}
	return err
}

// confirm returns nil if the record was settled under the lease. Otherwise it returns the lost response's error: the
// store may still be writing.
func (a *attempt) confirm(ctx context.Context, l store.Lease, lost error) error {
	rec, err := a.in.st.Find(ctx, l.ID)
	if err != nil {
		return errors.Join(lost, err)
	}
	if rec.State == store.StatePending || rec.Fence != l.Fence {
		return lost
	}
	return nil
}

// bury makes a dead letter of the event. It writes the letter before it settles the event's record, so that a crash
// in between loses neither. Both writes can be repeated. It first checks that this delivery still holds the event.
// Without the check it could write a letter for an event that another delivery is handling.
func (a *attempt) bury(ctx context.Context) (Receipt, error) {
	if err := a.extend(ctx, a.in.config.lease); err != nil {
		return Receipt{}, a.failStore(err)
	}
	o := a.outcome(true)
	if err := a.keep(ctx); err != nil {
		return Receipt{}, a.failStore(err)
	}
	if err := a.settle(ctx, o); err != nil {
		return Receipt{}, a.failStore(err)
	}
	return a.note.receipt(a.ev, a.claim.Fingerprint, DeadLettered), nil
}

// keep writes the letter, or writes it anew. It does not change the letter of an earlier unknown outcome: only
// RedriveUnknown and Drop may.
func (a *attempt) keep(ctx context.Context) error {
	ctx, done := a.visit(ctx)
	defer done()
	letter := a.note
	letter.payload = a.ev.Payload
	c := store.Claim{
		ID: a.ev.letter(), Fingerprint: a.claim.Fingerprint, Retention: a.in.letters, Meta: letter.encode(),
	}
	g, err := a.in.st.Reserve(ctx, c)
	switch {
	case err != nil:
		return err
	case g.Verdict == store.TakenOver:
		if n, err := decodeNote(g.Record.Meta); err == nil && n.unknown && !a.redriven {
			return nil
		}
		return a.in.st.Extend(ctx, g.Lease, 0, c.Meta)
	case g.Verdict != store.Acquired:
		// The record of an earlier event with this id has expired, but its letter has not.
		return a.ev.fail(taxonomy.PayloadMismatch, a.note.attempts, nil)
	}
	return nil
}

// failStore returns the error for a write that the store refused, or for an event that another delivery holds now.
func (a *attempt) failStore(err error) *Error { return a.ev.failStore(a.note.attempts, err) }

func (ev Event) failStore(attempts int, err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	code := taxonomy.Unavailable
	if errors.Is(err, store.ErrLost) {
		code = taxonomy.InFlight
	}
	return ev.fail(code, attempts, err)
}
