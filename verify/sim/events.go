package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
)

// A queueGate is one relay's way to the queue.
type queueGate struct {
	outbox.Queue
	*process
	link *link
}

func (g *queueGate) write(ctx context.Context, what string, f func() error) error {
	m := g.enter(ctx, g.link, what, true)
	if !m.call {
		return m.err
	}
	err := f()
	return g.leave(ctx, g.link, what, m, err)
}

// Claim implements outbox.Queue.
func (g *queueGate) Claim(ctx context.Context, c outbox.Claim) (ds []outbox.Delivery, err error) {
	err = g.write(ctx, "Claim", func() error {
		ds, err = g.Queue.Claim(ctx, c)
		return err
	})
	if err != nil {
		return nil, err
	}
	return ds, nil
}

// Extend implements outbox.Queue.
func (g *queueGate) Extend(
	ctx context.Context, d time.Duration, leases ...outbox.Lease,
) (lost []outbox.Lease, err error) {
	err = g.write(ctx, "Extend", func() error {
		lost, err = g.Queue.Extend(ctx, d, leases...)
		return err
	})
	return lost, err
}

// Settle implements outbox.Queue.
func (g *queueGate) Settle(ctx context.Context, ended ...outbox.Settlement) (lost []outbox.Lease, err error) {
	err = g.write(ctx, "Settle", func() error {
		lost, err = g.Queue.Settle(ctx, ended...)
		return err
	})
	return lost, err
}

// newRelay starts a relay process.
func (w *world) newRelay(place, generation int, link *link) (*process, error) {
	p := w.newProcess(fmt.Sprintf("relay%d.%d", place, generation), "")
	client, err := redo.New(redo.WithTransport(wire{p}))
	if err != nil {
		return nil, err
	}
	publisher, err := outbox.HTTP(client)
	if err != nil {
		return nil, err
	}
	if wrap := w.defect.publisher; wrap != nil {
		publisher = wrap(w, publisher)
	}
	queue := &queueGate{w.queue, p, link}
	waits := make([]time.Duration, 200)
	for i := range waits {
		waits[i] = min(time.Second<<min(i, 10), time.Minute)
	}
	relay, err := outbox.NewRelay(queue, publisher,
		outbox.Retry(waits...), outbox.LeaseTTL(w.plan.lease), outbox.Drain(0), outbox.HintCap(time.Minute),
		outbox.Retention(24*time.Hour))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(w.context)
	p.atEnd(cancel)
	go func() { _ = relay.Run(ctx) }()
	return p, nil
}

var errSick = errors.New("sim: the consumer is sick")

// newConsumer starts a consumer process in its place.
func (w *world) newConsumer(place, generation int, link *link) (*process, error) {
	p := w.newProcess(fmt.Sprintf("consumer%d.%d", place, generation), consumerHost)
	opts := []inbox.Option{
		inbox.LeaseTTL(w.plan.lease), inbox.MaxAttempts(10_000),
		inbox.Backoff(func(int) time.Duration { return time.Second }),
	}
	st := &txGate{gate{w.consumers, p, link}, w.consumers}
	opts = append(opts, w.defect.inbox...)
	identify := func(r *http.Request) (inbox.Event, error) {
		payload, err := io.ReadAll(r.Body)
		return inbox.Event{Source: "service", ID: r.Header.Get("Idempotency-Key"), Payload: payload}, err
	}
	if f := w.defect.identify; f != nil {
		identify = f(w, identify)
	}
	if w.defect.plainInbox {
		in, err := inbox.New(st, opts...)
		if err != nil {
			return nil, err
		}
		p.serve = in.Handler(identify, func(ctx context.Context, ev inbox.Event) error {
			err := p.handle(ctx, ev)
			if err == nil {
				w.consumers.insert(nameOf(ev))
			}
			return err
		}).ServeHTTP
	} else {
		in, err := inbox.NewTransactional(st, opts...)
		if err != nil {
			return nil, err
		}
		p.serve = in.Handler(identify, func(ctx context.Context, tx *work, ev inbox.Event) error {
			err := p.handle(ctx, ev)
			if err == nil {
				tx.Insert(nameOf(ev))
			}
			return err
		}).ServeHTTP
	}
	if wrap := w.defect.consumer; wrap != nil {
		p.serve = wrap(w, http.HandlerFunc(p.serve)).ServeHTTP
	}
	w.net.listen(p, place)
	return p, nil
}

// handle is the work of a consumer's handler in front of its effect.
func (p *process) handle(ctx context.Context, ev inbox.Event) error {
	w := p.world
	if err := p.wait(ctx, between(w.draw(p.name+"handle"+ev.ID), time.Millisecond, time.Second)); err != nil {
		return err
	}
	if w.happens(w.draw(p.name+"sick"+ev.ID), w.plan.sick) {
		return errSick
	}
	return nil
}
