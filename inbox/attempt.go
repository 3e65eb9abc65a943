package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// An attempt is one attempt at an event that this delivery owns.
type attempt struct {
	call
	in    *Inbox
	ev    Event
	claim store.Claim
	lease store.Lease
	note  note
	held  time.Time // this process's clock before the lease was last granted
	read  time.Time // the store's clock when the event was reserved
	since time.Time // this process's clock at the same time
	begun bool      // the handler was called
	left  bool      // a failure was not recorded, so that the lease may be live

	receipt Receipt // the result of the delivery, also if the handler panics
	err     error
}

// A handlerError wraps a handler's error.
type handlerError struct{ err error }

func (e *handlerError) Error() string { return e.err.Error() }
func (e *handlerError) Unwrap() error { return e.err }

// A settledError carries the receipt for an event that another delivery has settled.
type settledError struct{ receipt Receipt }

func (*settledError) Error() string { return "inbox: settled by another delivery" }

var (
	errGone   = errors.New("the handler ended its goroutine")
	errNoEnd  = "the attempt did not end"
	errNoText = "an error without a text"
)

// broken returns the error of a handler that did not return. p is its panic, or nil.
func broken(p any) error {
	if p == nil {
		return errGone
	}
	return fmt.Errorf("the handler panicked: %v", p)
}

// begin counts the attempt. For a new event, Reserve has counted it. The error is nil if the handler may run.
func (a *attempt) begin(ctx context.Context, g store.Grant) error {
	a.lease, a.read, a.since = g.Lease, g.Record.ReadAt, time.Now()
	if a.note.Received.IsZero() {
		a.note.Received = g.Record.CreatedAt.UTC()
	}
	if g.Verdict == store.Acquired {
		return nil
	}
	earlier, err := decodeNote(g.Record.Meta)
	if err != nil {
		a.giveBack(ctx)
		return a.ev.fail(Unreadable, err) // another release wrote it, and can read it
	}
	if earlier.State == dead && !a.redriven {
		a.giveBack(ctx)
		return &settledError{earlier.receipt(a.ev, a.claim.Fingerprint, Replayed)}
	}
	if left := a.imminent(earlier, g.Record); left > 0 {
		e := a.ev.fail(taxonomy.InFlight, nil).after(earlier.Attempts)
		e.RetryAfter = left
		return e
	}
	return a.count(ctx, earlier)
}

// count writes the attempt's number. An event whose last allowed attempt has no outcome becomes a dead letter
// instead: the process of that attempt has died.
func (a *attempt) count(ctx context.Context, earlier note) error {
	a.note.Attempts, a.note.Err = earlier.Attempts+1, earlier.Err
	if a.note.Attempts > a.in.maxAttempts && !a.redriven && !a.queued {
		a.note.Attempts-- // this one is not made
		if a.note.Err == "" {
			a.note.Err = errNoEnd
		}
		return a.bury(ctx)
	}
	a.note.State, a.note.Changed = counted, a.read.UTC()
	if earlier.State == dead { // until the redrive has succeeded
		a.note.State, a.note.Changed = dead, earlier.Changed
	}
	a.held = time.Now()
	ctx, done := a.in.storeContext(ctx)
	defer done()
	return a.write(ctx, a.claim.Lease)
}

// imminent returns how long the last attempt may still need to begin its transaction. The attempt has no lease and is
// counted before its transaction opens, so only the time of the count shows this. Until then the attempt is not
// treated as dead.
func (a *attempt) imminent(last note, rec store.Record) time.Duration {
	if a.claim.Lease > 0 || a.redriven || a.queued || last.Attempts < a.in.maxAttempts {
		return 0
	}
	counted := last.Changed
	if counted.IsZero() {
		counted = rec.CreatedAt // by Reserve, when it was new
	}
	return counted.Add(a.in.config.lease).Sub(rec.ReadAt)
}

// finish returns the result of the delivery.
func (a *attempt) finish(ctx context.Context, err error) (Receipt, error) {
	if failed, ok := err.(*handlerError); ok { //nolint:errorlint // the wrapped error is the handler's
		err = a.fail(ctx, failed.err)
	}
	switch e := err.(type) { //nolint:errorlint // as above
	case nil:
		return a.note.receipt(a.ev, a.claim.Fingerprint, Processed), nil
	case *settledError:
		return e.receipt, nil
	case *unknownError:
		return a.unknown(ctx, a.claim.Fingerprint, DeadLettered, fmt.Errorf("%w: %w", errUnknown, e.err))
	default:
		return Receipt{}, a.ev.failStore(a.note.Attempts, err)
	}
}

// fail records that the handler has failed. The event rests, or becomes a dead letter.
func (a *attempt) fail(ctx context.Context, failed error) error {
	a.note.Err = cmp.Or(failed.Error(), errNoText)
	last := a.redriven || a.note.Attempts >= a.in.maxAttempts || errors.Is(failed, ErrRejected)
	if last && !a.queued {
		return a.bury(ctx)
	}
	e := a.ev.fail(HandlerFailed, failed).after(a.note.Attempts)
	if !a.queued {
		e.RetryAfter = a.in.rest(a.note.Attempts)
	}
	a.note.State, a.note.Changed, a.note.Fence = resting, a.now(), a.lease.Fence
	if err := a.record(ctx, e.RetryAfter); err != nil {
		a.left, e.Err = true, errors.Join(failed, err) // the lease expires, and the attempt stays counted
	}
	return e
}

// bury makes a dead letter of the event, in one write.
func (a *attempt) bury(ctx context.Context) error {
	a.note.State, a.note.Changed = dead, a.now()
	if err := a.record(ctx, 0); err != nil {
		return err
	}
	return &settledError{a.note.receipt(a.ev, a.claim.Fingerprint, DeadLettered)}
}

// write writes the note, with the payload unless the queue has it. The lease ends d from now.
func (a *attempt) write(ctx context.Context, d time.Duration) error {
	n := a.note
	if !a.queued {
		n.Kept, n.payload = true, a.ev.Payload
	}
	return a.in.st.Extend(ctx, a.lease, d, n.encode())
}

// giveBack ends the lease on an event that this delivery may not handle. If it fails, the lease expires.
func (a *attempt) giveBack(ctx context.Context) {
	if a.claim.Lease == 0 {
		return
	}
	ctx, done := a.in.storeContext(ctx)
	defer done()
	_ = a.in.st.Extend(ctx, a.lease, 0, nil)
}

// outcome returns the outcome of a success that is settled now.
func (a *attempt) outcome() store.Outcome {
	a.note.Changed, a.note.Err = a.now(), ""
	return a.in.outcome(false, a.note)
}

// outcome returns an outcome whose result is the note without the payload.
func (in *Inbox) outcome(failed bool, n note) store.Outcome {
	n.State, n.Kept, n.payload = counted, false, nil
	return store.Outcome{Failed: failed, Result: n.encode(), Retention: in.retention}
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

// now returns the store's clock: its last reading and the time since then by this process's clock.
func (a *attempt) now() time.Time { return a.read.Add(time.Since(a.since)).UTC() }

// storeContext returns a context for a write that the end of the delivery must not stop.
func (in *Inbox) storeContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), in.storeTimeout)
}

// failStore returns the error for a write that the store refused, or for an event that another delivery holds now.
func (ev Event) failStore(attempts int, err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	code := taxonomy.Unavailable
	if errors.Is(err, store.ErrLost) {
		code = taxonomy.InFlight
	}
	return ev.fail(code, err).after(attempts)
}
