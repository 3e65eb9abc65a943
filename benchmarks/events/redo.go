package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/pgoutbox"
)

type redoQueue struct {
	*pgoutbox.Queue
	p       place
	workers int // 0: no relay
}

func openRedo(workers int) func(context.Context, place) (queue, error) {
	return func(ctx context.Context, p place) (queue, error) {
		q, err := pgoutbox.New(p.pool, pgoutbox.WithSchema(p.schema))
		if err != nil {
			return nil, err
		}
		return redoQueue{q, p, workers}, q.Migrate(ctx)
	}
}

func openBare(ctx context.Context, p place) (queue, error) { return openRedo(0)(ctx, p) }

func (q redoQueue) enqueue(ctx context.Context, tx pgx.Tx, body []byte) error {
	_, err := q.Enqueue(ctx, tx, outbox.Event{Type: "order.made", Payload: body})
	return err
}

func (q redoQueue) fill(ctx context.Context, n int) error {
	for n > 0 {
		evs := make([]outbox.Event, min(n, 1000))
		for i := range evs {
			evs[i] = outbox.Event{Type: "order.made", Payload: make([]byte, bodySize)}
		}
		if err := q.Append(ctx, evs...); err != nil {
			return err
		}
		n -= len(evs)
	}
	return nil
}

func (q redoQueue) work(ctx context.Context, deliver func([]byte)) error {
	if q.workers == 0 {
		return q.loop(ctx, deliver)
	}
	r, err := outbox.NewRelay(q.Queue, outbox.PublisherFunc(func(_ context.Context, ev outbox.Event) error {
		deliver(ev.Payload)
		return nil
	}), outbox.Workers(q.workers))
	if err != nil {
		return err
	}
	return r.Run(ctx)
}

// loop claims and settles a thousand events at a time.
func (q redoQueue) loop(ctx context.Context, deliver func([]byte)) error {
	for ctx.Err() == nil {
		ds, err := q.Claim(context.WithoutCancel(ctx), outbox.Claim{Max: 1000, Lease: time.Minute})
		if err != nil {
			return err
		}
		ended := make([]outbox.Settlement, len(ds))
		for i, d := range ds {
			ended[i] = outbox.Settlement{Lease: d.Lease, Outcome: outbox.Outcome{Result: outbox.Sent}}
		}
		if _, err := q.Settle(context.WithoutCancel(ctx), ended...); err != nil {
			return err
		}
		for _, d := range ds {
			deliver(d.Event.Payload)
		}
	}
	return nil
}
