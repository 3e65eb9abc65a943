package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/redo-go/redo/internal/null"
	"github.com/redo-go/redo/internal/settle"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// A Queue keeps accepted events until they are handled. The queues of boltoutbox, memoutbox and pgoutbox are such.
type Queue interface {
	outbox.Queue
	outbox.Backlog
}

// A Receiver is an inbox with its handler. Make one with [Inbox.Receiver] or [Transactional.Receiver].
type Receiver struct {
	in   *Inbox
	mode mode
}

// Receiver returns the inbox with its handler.
func (in *Inbox) Receiver(h Handler) Receiver { return Receiver{in, plain{in, h}} }

// Receiver is [Inbox.Receiver].
func (t *Transactional[T]) Receiver(h TxHandler[T]) Receiver { return Receiver{t.in, within[T]{t, h}} }

// Receive is [Inbox.Receive] with the receiver's handler.
func (r Receiver) Receive(ctx context.Context, ev Event) (Receipt, error) {
	return r.in.receive(ctx, ev, call{}, r.mode)
}

// An Acceptor acknowledges events when they are durable, and handles them later from a queue. Create one with
// [Accept].
type Acceptor struct {
	queue Queue
	in    *Inbox
	mode  mode
	relay *outbox.Relay
	left  sync.Map // events whose lease this process may have left in the inbox's store, until it has expired
}

// Accept returns an Acceptor over a queue that must hold nothing else. Several processes may share it where the
// queue's engine allows that.
//
// The options are those of an outbox.Relay: outbox.Retry sets the schedule of attempts, outbox.Workers their number,
// and outbox.HoldKeys keeps an ordering key behind its dead letter. [HandlerTimeout] is the attempt's timeout.
// [MaxAttempts] and [Backoff] have no effect.
//
// If the inbox's store can't be reached before the handler runs, the attempt is not counted. Nor is one that meets the
// lease of an attempt of this process that could not give it up. The event's source then rests for a second at first,
// and for up to a minute while the outage lasts.
//
// The sources are the relay's destinations, so that none delays another. A source is never disabled, because one event
// that fails must not stop the others. So outbox.OnDisabled has no effect.
//
// If the queue and a [Transactional] inbox share a bbolt file, its handlers run one after the other, and the queue's
// leases can't be renewed meanwhile. All handlers that wait for the file must then end within two thirds of
// outbox.LeaseTTL, which is 30 seconds by default and shorter than HandlerTimeout. A handler whose lease has ended may
// be cancelled with the cause store.ErrLost, and its attempt stays counted. outbox.PerDestination bounds their number.
//
// outbox.Retention is the time for which the queue remembers a handled event. [Retention] is the time for which
// the inbox does, so that it does not handle the event again.
func Accept(q Queue, r Receiver, opts ...outbox.Option) (*Acceptor, error) {
	if r.in == nil {
		return nil, errors.New("inbox: the receiver is zero")
	}
	if !r.mode.set() {
		return nil, errors.New("inbox: the receiver's handler is nil")
	}
	if null.Is(q) {
		return nil, errors.New("inbox: the queue is nil")
	}
	a := &Acceptor{queue: q, in: r.in, mode: r.mode}
	opts = append(slices.Clone(opts), outbox.AttemptTimeout(r.in.timeout), outbox.OnDisabled(
		func(ctx context.Context, _ outbox.DisabledDestination) { go a.enable(ctx) },
	))
	var err error
	a.relay, err = outbox.NewRelay(q, outbox.PublisherFunc(a.publish), opts...)
	if err != nil {
		return nil, err
	}
	return a, nil
}

// Run handles accepted events until ctx ends, as outbox.Relay.Run does. It returns nil.
func (a *Acceptor) Run(ctx context.Context) error {
	var enabling sync.WaitGroup
	defer enabling.Wait()
	enabling.Go(func() { // a process may have died after its relay had disabled a source, or have lost the response
		for on := true; on; on = settle.Sleep(ctx, time.Minute) {
			a.enable(ctx)
		}
	})
	return a.relay.Run(ctx)
}

// enable enables all sources. It goes on until the queue has done so, or ctx ends.
func (a *Acceptor) enable(ctx context.Context) {
	for {
		call, done := context.WithTimeout(ctx, a.in.storeTimeout)
		disabled, err := a.queue.Disabled(call)
		for _, d := range disabled {
			err = errors.Join(err, a.relay.Enable(call, d.Destination))
		}
		done()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}

// Receive makes the event durable in the queue. If the error is nil, the delivery may be acknowledged. The receipt's
// status is Accepted for an event that is not settled, and Replayed for one that is settled or a dead letter.
// Otherwise the error is an [*Error], and the event must be delivered again.
//
// Another payload under the same id is taxonomy.PayloadMismatch until the event is settled or a dead letter. Then it is
// acknowledged with Receipt.PayloadMismatch, and not handled.
func (a *Acceptor) Receive(ctx context.Context, ev Event) (r Receipt, err error) {
	start := time.Now()
	defer func() { a.in.report(ctx, ev, call{}, r, err, start) }()
	if err := ev.validate(); err != nil {
		return Receipt{}, err
	}
	fp, err := a.in.fingerprint(ev)
	if err != nil {
		return Receipt{}, ev.fail(taxonomy.BadRequest, err)
	}
	write, done := a.in.storeContext(ctx)
	defer done()
	err = a.queue.Append(write, queued(ev, start))
	switch {
	case err == nil:
		return Receipt{Source: ev.Source, ID: ev.ID, PayloadHash: fp, Status: Accepted, ReceivedAt: start.UTC()}, nil
	case errors.Is(err, outbox.ErrDuplicate):
		return a.repeated(write, ev, fp) // net/http bounds no delivery
	case errors.Is(err, store.ErrInvalid):
		err = fmt.Errorf("the queue refuses the event, whose destination is the source: %w", err)
		return Receipt{}, ev.fail(taxonomy.BadRequest, err)
	default:
		return Receipt{}, ev.fail(taxonomy.Unavailable, err)
	}
}

// repeated returns the receipt or the refusal for an event that the queue has already. If the queue does not list it,
// it was handled.
func (a *Acceptor) repeated(ctx context.Context, ev Event, fp store.Fingerprint) (Receipt, error) {
	var rec store.Record
	for range 2 { // a queue may miss an event that is claimed while it lists
		for e, err := range a.queue.Events(ctx, outbox.Selection{ID: QueueID(ev.ID), Destination: ev.Source}) {
			if err != nil {
				return Receipt{}, ev.fail(taxonomy.Unavailable, err)
			}
			return a.listed(ev, fp, e)
		}
		var err error
		rec, err = a.in.st.Find(ctx, ev.id())
		switch {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return Receipt{}, ev.fail(taxonomy.Unavailable, err)
		case rec.State != store.StatePending:
			at := &attempt{call: call{queued: true}, in: a.in, ev: ev}
			r, err := at.replay(ctx, rec)
			r.PayloadMismatch = err == nil && rec.Fingerprint != fp
			return r, err
		}
	}
	if rec.State == store.StatePending { // redriven or dropped meanwhile
		return Receipt{}, ev.fail(taxonomy.InFlight, nil)
	}
	// The queue remembers the event for longer than the inbox.
	return Receipt{Source: ev.Source, ID: ev.ID, PayloadHash: fp, Status: Replayed}, nil
}

// listed returns the receipt or the refusal for an event that the queue lists.
func (a *Acceptor) listed(ev Event, fp store.Fingerprint, e outbox.Entry) (Receipt, error) {
	f, err := a.failed(e)
	switch {
	case err != nil:
		return Receipt{}, err
	case e.State == outbox.StateWaiting && f.PayloadHash != fp:
		return Receipt{}, ev.fail(taxonomy.PayloadMismatch, nil).after(e.Attempts)
	}
	r := Receipt{
		Source: ev.Source, ID: ev.ID, PayloadHash: f.PayloadHash, Status: Accepted, ReceivedAt: f.ReceivedAt,
		Attempts: f.Attempts,
	}
	if e.State == outbox.StateDead {
		r.Status, r.ProcessedAt, r.Failure, r.Unknown = Replayed, f.FailedAt, f.Failure, f.Unknown
		r.PayloadMismatch = f.PayloadHash != fp
	}
	return r, nil
}

// Handler receives events over HTTP, as [Inbox.Handler] does, with the response 202 for an event that is accepted.
func (a *Acceptor) Handler(identify Identify) http.Handler { return a.in.serve(identify, a.Receive) }

// publish handles an event of the queue.
func (a *Acceptor) publish(ctx context.Context, out outbox.Event) error {
	ev, received, err := accepted(out)
	if err != nil {
		return outbox.Reject(err)
	}
	at := a.in.delivery(ctx, ev, call{queued: true, received: received}, a.mode)
	if err = at.err; err == nil {
		return nil
	}
	f := &queueError{code: taxonomy.Internal, err: err, ended: ctx.Err()}
	if e, ok := errors.AsType[*Error](err); ok {
		f.code = e.Code
		if e.Err != nil {
			f.err = e.Err
		}
	}
	if f.code == taxonomy.OutcomeUnknown {
		f.code = effectUnknown
	}
	if f.code == effectUnknown || errors.Is(err, ErrRejected) {
		return outbox.Reject(f)
	}
	_, left := a.left.Load(ev.id())
	if f.code == taxonomy.Unavailable || at.left {
		a.leave(ev.id())
	}
	if !at.begun && (f.code == taxonomy.Unavailable || f.code == taxonomy.InFlight && left) {
		return outbox.NotSent(f) // an outage of the inbox's store must not use up the event's attempts
	}
	return f
}

// leave keeps the event in left for the time of a lease.
func (a *Acceptor) leave(id store.ID) {
	lease := new(byte) // a later one of the event outlives it
	a.left.Store(id, lease)
	time.AfterFunc(a.in.config.lease, func() { a.left.CompareAndDelete(id, lease) })
}

// effectUnknown is the code of a dead letter whose handler has ended its transaction. The relay has other letters
// with the code taxonomy.OutcomeUnknown.
const effectUnknown = taxonomy.OutcomeUnknown + ".handler"

// A queueError is the failure of an attempt, for the relay. It does not unwrap to the handler's error, which may hold
// a code of another call. The relay would judge the event by that code, and take an Applied call for a success.
type queueError struct {
	code  taxonomy.Code
	err   error
	ended error // of the attempt's context, or nil
}

func (f *queueError) Error() string { return cmp.Or(f.err.Error(), errNoText) }

func (f *queueError) Unwrap() []error {
	if f.ended == nil {
		return []error{f.code}
	}
	return []error{f.code, f.ended}
}
