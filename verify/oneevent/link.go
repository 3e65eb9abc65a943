package oneevent

import (
	"context"
	"iter"
	"time"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/verify/internal/random"
)

// travel lets the time of a request or a response pass.
func (p *process) travel(ctx context.Context) {
	if p.life.Chance(30) {
		select {
		case <-time.After(p.life.Span(storeTimeout / 4)):
		case <-ctx.Done():
		}
	}
	p.WaitForResume()
}

// A queueLink is a process's connection to the queue.
type queueLink struct {
	inbox.Queue
	way random.Link
}

// Append implements outbox.Queue.
func (k queueLink) Append(ctx context.Context, events ...outbox.Event) error {
	return k.way.Over(ctx, func() error { return k.Queue.Append(ctx, events...) })
}

// Claim implements outbox.Queue.
func (k queueLink) Claim(ctx context.Context, c outbox.Claim) (ds []outbox.Delivery, err error) {
	err = k.way.Over(ctx, func() (err error) {
		ds, err = k.Queue.Claim(ctx, c)
		return err
	})
	if err != nil {
		return nil, err
	}
	return ds, nil
}

// Extend implements outbox.Queue.
func (k queueLink) Extend(ctx context.Context, d time.Duration, ls ...outbox.Lease) (gone []outbox.Lease, err error) {
	err = k.way.Over(ctx, func() (err error) {
		gone, err = k.Queue.Extend(ctx, d, ls...)
		return err
	})
	return gone, err
}

// Settle implements outbox.Queue.
func (k queueLink) Settle(ctx context.Context, ended ...outbox.Settlement) (gone []outbox.Lease, err error) {
	err = k.way.Over(ctx, func() (err error) {
		gone, err = k.Queue.Settle(ctx, ended...)
		return err
	})
	return gone, err
}

// Events implements outbox.Backlog.
func (k queueLink) Events(ctx context.Context, s outbox.Selection) iter.Seq2[outbox.Entry, error] {
	if err := k.way.Read(ctx, func() error { return nil }); err != nil {
		return func(yield func(outbox.Entry, error) bool) { yield(outbox.Entry{}, err) }
	}
	return k.Queue.Events(ctx, s)
}

// Redrive implements outbox.Backlog.
func (k queueLink) Redrive(ctx context.Context, id, destination string) error {
	return k.way.Over(ctx, func() error { return k.Queue.Redrive(ctx, id, destination) })
}

// Drop implements outbox.Backlog.
func (k queueLink) Drop(ctx context.Context, id, destination string) error {
	return k.way.Over(ctx, func() error { return k.Queue.Drop(ctx, id, destination) })
}

// Disable implements outbox.Queue.
func (k queueLink) Disable(ctx context.Context, destination string, why outbox.Failure) error {
	return k.way.Over(ctx, func() error { return k.Queue.Disable(ctx, destination, why) })
}

// Enable implements outbox.Queue.
func (k queueLink) Enable(ctx context.Context, destination string) error {
	return k.way.Over(ctx, func() error { return k.Queue.Enable(ctx, destination) })
}

// Disabled implements outbox.Queue.
func (k queueLink) Disabled(ctx context.Context) (ds []outbox.DisabledDestination, err error) {
	err = k.way.Read(ctx, func() (err error) {
		ds, err = k.Queue.Disabled(ctx)
		return err
	})
	return ds, err
}
