package inbox

import (
	"context"
	"errors"
	"time"

	"github.com/redo-go/redo/internal/null"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// A Store has the methods that an inbox needs. All stores of this project have them.
type Store interface {
	store.Store
	store.Lister
}

// An Inbox runs a handler once for each event. Create one with [New]. Several processes may share its store.
type Inbox struct {
	st Store
	config
}

// New returns an Inbox over a store, which other users may share: its scopes start with "inbox". The error names each
// option that is wrong.
func New(st Store, opts ...Option) (*Inbox, error) {
	if null.Is(st) {
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
	return in.receive(ctx, ev, call{}, plain{in, h})
}

// A mode makes and settles attempts.
type mode interface {
	// set reports whether there is a handler.
	set() bool
	// lease is the time for which the event is held before the attempt.
	lease() time.Duration
	// attempt runs the handler and settles the event if the handler succeeds. If the handler fails, the error is a
	// *handlerError and nothing is settled. If the handler's effect is unknown, the error is an *unknownError and the
	// event is settled. Any other error is the store's.
	attempt(ctx context.Context, a *attempt) error
}

// A call is the origin of a delivery. Its zero value is a producer.
type call struct {
	redriven bool      // by an operator
	queued   bool      // by the queue of [Accept], which has the payload, the schedule and the dead letters
	received time.Time // when the queue got the event, or zero
}

// receive makes one delivery and reports it.
func (in *Inbox) receive(ctx context.Context, ev Event, c call, m mode) (Receipt, error) {
	a := in.delivery(ctx, ev, c, m)
	return a.receipt, a.err
}

// delivery is receive. It returns the attempt with its result.
func (in *Inbox) delivery(ctx context.Context, ev Event, c call, m mode) *attempt {
	start := time.Now()
	a := &attempt{in: in, ev: ev, call: c, note: note{Attempts: 1, Received: c.received}, held: start}
	defer func() { in.report(ctx, ev, c, a.receipt, a.err, start) }()
	a.receipt, a.err = a.deliver(ctx, m)
	return a
}

// deliver reserves the event, and makes an attempt if this delivery owns it.
func (a *attempt) deliver(ctx context.Context, m mode) (Receipt, error) {
	in, ev := a.in, a.ev
	if !m.set() {
		return Receipt{}, ev.fail(taxonomy.Configuration, errNoHandler)
	}
	if err := ev.validate(); err != nil {
		return Receipt{}, err
	}
	fp, err := in.fingerprint(ev)
	if err != nil {
		return Receipt{}, ev.fail(taxonomy.BadRequest, err)
	}
	a.claim = store.Claim{
		ID: ev.id(), Fingerprint: fp, Lease: m.lease(), Retention: in.letters, Meta: a.note.encode(),
	}
	if a.queued {
		a.claim.Retention = store.Forever // the queue's dead letters do not expire either
	}
	claiming, done := context.WithTimeout(ctx, in.storeTimeout) // net/http bounds no delivery
	g, err := in.st.Reserve(claiming, a.claim)
	done()
	if err != nil {
		return Receipt{}, ev.fail(taxonomy.Unavailable, err)
	}
	if !g.Verdict.Owned() {
		return a.resolve(ctx, g)
	}
	if err = a.begin(ctx, g); err == nil {
		a.ev.Attempt, a.ev.ReceivedAt = a.note.Attempts, a.note.Received
		err = m.attempt(ctx, a)
	}
	return a.finish(ctx, err)
}
