package inbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redo-go/redo/store"
)

// How often the event is barred from further attempts when the store does not take it, and the pause after the first time,
// which doubles: nothing else keeps the effect from being made again.
const (
	barTries = 4
	barPause = 50 * time.Millisecond
)

// An unknownError is what becomes of a handler that has committed by itself, or may have, and is not on record as handled.
type unknownError struct{ err error }

func (e *unknownError) Error() string { return e.err.Error() }
func (e *unknownError) Unwrap() error { return e.err }

// ended is the error of a transaction that its handler has committed. failed is the handler's own, which may be nil.
func ended(err, failed error) *unknownError {
	if failed == nil {
		return &unknownError{err}
	}
	return &unknownError{fmt.Errorf("%w; after that it failed: %w", err, failed)}
}

// committed reports whether an error of the transaction's end means that the handler's writes stand, or may.
func committed(err error) bool {
	return errors.Is(err, store.ErrTxEnded) && errors.Is(err, store.ErrUnknown)
}

// unknownFailure is the text of what nobody knows, without the cause.
const unknownFailure = "what the handler did is not known, and it is not run again"

// setAside makes a dead letter of an event with an unknown outcome. Its record comes first: a crash after it leaves an event
// that is not handled again, of which the next delivery writes the letter. The letter is written also when another delivery
// has the event by now, since two may have handled it then.
func (a *attempt) setAside(ctx context.Context, cause error) (Receipt, error) {
	g, err := a.bar(ctx)
	if err != nil {
		return Receipt{}, a.failStore(err)
	}
	if r := g.Record; g.Verdict == store.Complete && r.Fence == a.own && !r.OutcomeUnknown() {
		return a.note.receipt(a.ev, r.Fingerprint, Processed), nil // the record could not be read before
	}
	a.note.processed = a.now()
	a.note.err = unknownFailure + ": " + cause.Error()
	return a.keepUnknown(ctx)
}

// keepUnknown writes the letter of an unknown outcome.
func (a *attempt) keepUnknown(ctx context.Context) (Receipt, error) {
	letter := a.note
	letter.payload, letter.unknown = a.ev.Payload, true
	if err := a.keep(ctx, letter); err != nil {
		return Receipt{}, a.failStore(err)
	}
	return letter.receipt(a.ev, a.claim.Fingerprint, DeadLettered), nil
}

// bar makes sure that the event is not handled again. Mostly the store has settled it already, see store.ErrTxEnded, and the
// grant shows it.
func (a *attempt) bar(ctx context.Context) (store.Grant, error) {
	ctx, done := a.visit(ctx)
	defer done()
	pause := barPause
	for try := 1; ; try++ {
		g, err := a.barOnce(ctx)
		if err == nil || try == barTries || !sleep(ctx, pause) {
			return g, err
		}
		pause *= 2
	}
}

func (a *attempt) barOnce(ctx context.Context) (store.Grant, error) {
	c := a.claim
	c.Lease, c.Meta = a.in.config.lease, a.note.encode()
	g, err := a.in.st.Reserve(ctx, c)
	if err != nil || !g.Verdict.Owned() {
		return g, err
	}
	err = a.in.st.Complete(ctx, g.Lease, store.UnknownOutcome())
	if errors.Is(err, store.ErrUnknown) {
		err = a.confirm(ctx, g.Lease, err)
	}
	return g, err
}

// sleep waits for d and reports whether it did: it does not when the context ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// answerUnknown is the answer to a delivery of an event that was settled as unknown. Unless its letter stands, or was
// dropped, the process that should have written it has died before.
func (a *attempt) answerUnknown(ctx context.Context, rec store.Record) (Receipt, error) {
	n, err := a.in.told(ctx, a.ev, rec)
	if err != nil {
		return Receipt{}, a.failStore(err)
	}
	if n != nil {
		return n.receipt(a.ev, rec.Fingerprint, Replayed), nil
	}
	a.note = remembered(rec)
	r, err := a.keepUnknown(ctx)
	if err == nil {
		a.log(ctx, "inbox: dead letter of an unknown outcome written late", nil)
	}
	return r, err
}

// told returns the note of the letter that tells of the unknown outcome, or did until it was dropped, and nil if none does.
func (in *Inbox) told(ctx context.Context, ev Event, rec store.Record) (*note, error) {
	letter, err := in.st.Find(ctx, ev.letter())
	switch {
	case err == nil && letter.Fingerprint == rec.Fingerprint:
		n, err := decodeNote(letter.Meta)
		if err != nil {
			return nil, ev.fail(Unreadable, 0, err)
		}
		if n.unknown {
			return &n, nil
		}
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return nil, err
	}
	mark, err := in.st.Find(ctx, ev.dropped())
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case mark.Fingerprint != outcomeOf(rec):
		return nil, nil // an earlier one's
	}
	n, err := decodeNote(mark.Meta)
	if err != nil {
		return nil, ev.fail(Unreadable, 0, err)
	}
	return &n, nil
}

// remembered is what the record of an unknown outcome tells of it.
func remembered(rec store.Record) note {
	n, err := decodeNote(rec.Meta)
	if err != nil { // it had expired between the count and the transaction, which writes none
		n = note{attempts: 1}
	}
	if n.received.IsZero() {
		n.received = rec.CreatedAt
	}
	n.processed, n.err, n.unknown = rec.ReadAt, unknownFailure, true
	return n
}

// blame logs that a handler has ended its transaction.
func (a *attempt) blame(ctx context.Context, err error) {
	a.log(ctx, "inbox: the handler has ended its transaction by itself", err)
}

func (a *attempt) log(ctx context.Context, text string, err error) {
	l := a.in.logger
	if l == nil {
		return
	}
	attrs := []slog.Attr{
		slog.String("source", a.ev.Source), slog.String("event_id", a.ev.ID), slog.Int("attempt", a.note.attempts),
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	l.LogAttrs(ctx, slog.LevelError, text, attrs...)
}
