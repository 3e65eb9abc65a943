package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// A Store has the methods that an inbox needs. All stores of this project have them.
type Store interface {
	store.Store
	store.Lister
	store.Forgetter
}

// An Inbox runs a handler once for each event. Create one with [New]. Several processes may share its store.
type Inbox struct {
	st Store
	config
}

// New returns an Inbox over a store, which other users may share: its scopes start with "inbox". The error names each
// option that is wrong.
func New(st Store, opts ...Option) (*Inbox, error) {
	if st == nil {
		return nil, errors.New("inbox: the store is nil")
	}
	c, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	return &Inbox{st: st, config: c}, nil
}

// Receive handles the event, unless it is settled already. If the error is nil, the event is on record and the
// delivery may be acknowledged. The receipt holds the outcome. Otherwise the error is an [*Error], and the event must
// be delivered again, preferably after its RetryAfter. With the codes taxonomy.Unavailable and taxonomy.InFlight the
// handler may have succeeded, and only the record of it failed.
//
// The handler's context is ctx with [HandlerTimeout]. It ends with the cause store.ErrLost if the lease is lost.
func (in *Inbox) Receive(ctx context.Context, ev Event, h Handler) (Receipt, error) {
	return in.receive(ctx, ev, note{}, plain{in, h})
}

// A mode makes and settles attempts.
type mode interface {
	// lease is how long the event is held before the attempt.
	lease() time.Duration
	// attempt runs the handler and settles the event if the handler succeeds. If the handler fails, the error is a
	// *handlerError and nothing is settled. If the handler's effect is unknown, the error is an *unknownError and the
	// event is settled. Any other error is the store's.
	attempt(ctx context.Context, a *attempt) error
}

// A handlerError wraps a handler's error.
type handlerError struct{ err error }

func (e *handlerError) Error() string { return e.err.Error() }
func (e *handlerError) Unwrap() error { return e.err }

// receive is one delivery. letter is the note of the dead letter that is redriven, and zero otherwise.
func (in *Inbox) receive(ctx context.Context, ev Event, letter note, m mode) (Receipt, error) {
	if err := ev.validate(); err != nil {
		return Receipt{}, err
	}
	fp, err := in.fingerprint(ev)
	if err != nil {
		return Receipt{}, ev.fail(taxonomy.BadRequest, 0, err)
	}
	a := &attempt{in: in, ev: ev, redriven: letter.attempts > 0, note: note{attempts: letter.attempts + 1, received: letter.received}}
	a.claim = store.Claim{
		ID: ev.id(), Fingerprint: fp, Lease: m.lease(), Retention: in.retention, Meta: a.note.encode(),
	}
	g, err := in.st.Reserve(ctx, a.claim)
	if err != nil {
		return Receipt{}, ev.fail(taxonomy.Unavailable, 0, err)
	}
	if !g.Verdict.Owned() {
		return a.answer(ctx, g)
	}
	a.lease = g.Lease
	if err := a.count(ctx, g, m.lease()); err != nil {
		return Receipt{}, err
	}
	if a.note.attempts > in.maxAttempts && !a.redriven {
		// The last allowed attempt has no outcome: its process has died.
		if a.note.err == "" {
			a.note.err = "the attempt did not end"
		}
		a.note.attempts-- // this one is not made
		return a.bury(ctx)
	}
	a.ev.Attempt, a.ev.ReceivedAt = a.note.attempts, a.note.received
	return a.finish(ctx, m.attempt(ctx, a))
}

// answer returns the receipt or the refusal for an event that another delivery holds or has settled.
func (a *attempt) answer(ctx context.Context, g store.Grant) (Receipt, error) {
	ev := a.ev
	switch g.Verdict {
	case store.Complete, store.Failed:
		if g.Record.OutcomeUnknown() {
			return a.replayUnknown(ctx, g.Record)
		}
		n, err := decodeNote(g.Record.Result)
		if err != nil {
			return Receipt{}, ev.fail(Unreadable, 0, err)
		}
		return n.receipt(ev, g.Record.Fingerprint, Replayed), nil
	case store.Mismatch:
		return Receipt{}, ev.fail(taxonomy.PayloadMismatch, 0, nil)
	case store.InFlight:
		e := ev.fail(taxonomy.InFlight, 0, nil)
		e.RetryAfter = g.Record.LeaseLeft()
		if n, err := decodeNote(g.Record.Meta); err == nil {
			e.Attempts = n.attempts
		}
		return Receipt{}, e
	default:
		return Receipt{}, ev.fail(taxonomy.Unavailable, 0, fmt.Errorf("%w: the store gave %v", store.ErrUnavailable, g.Verdict))
	}
}

func (n note) receipt(ev Event, fp store.Fingerprint, s Status) Receipt {
	return Receipt{
		Source: ev.Source, ID: ev.ID, PayloadHash: fp, Status: s,
		ReceivedAt: n.received, ProcessedAt: n.processed, Attempts: n.attempts, Failure: n.err, Unknown: n.unknown,
	}
}

func (ev Event) fail(code taxonomy.Code, attempts int, err error) *Error {
	return &Error{Code: code, Source: ev.Source, ID: ev.ID, Attempts: attempts, Err: err}
}
