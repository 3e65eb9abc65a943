package random

import (
	"context"
	"iter"
	"time"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
)

// A QueueLink is the way from a process to its queue.
type QueueLink struct {
	inbox.Queue
	Way Link
}

// Append implements outbox.Queue.
func (k QueueLink) Append(ctx context.Context, events ...outbox.Event) error {
	return k.Way.Over(ctx, func() error { return k.Queue.Append(ctx, events...) })
}

// Claim implements outbox.Queue.
func (k QueueLink) Claim(ctx context.Context, c outbox.Claim) (ds []outbox.Delivery, err error) {
	err = k.Way.Over(ctx, func() (err error) {
		ds, err = k.Queue.Claim(ctx, c)
		return err
	})
	if err != nil {
		return nil, err
	}
	return ds, nil
}

// Extend implements outbox.Queue.
func (k QueueLink) Extend(ctx context.Context, d time.Duration, ls ...outbox.Lease) (gone []outbox.Lease, err error) {
	err = k.Way.Over(ctx, func() (err error) {
		gone, err = k.Queue.Extend(ctx, d, ls...)
		return err
	})
	return gone, err
}

// Settle implements outbox.Queue.
func (k QueueLink) Settle(ctx context.Context, ended ...outbox.Settlement) (gone []outbox.Lease, err error) {
	err = k.Way.Over(ctx, func() (err error) {
		gone, err = k.Queue.Settle(ctx, ended...)
		return err
	})
	return gone, err
}

// Events implements outbox.Backlog.
func (k QueueLink) Events(ctx context.Context, s outbox.Selection) iter.Seq2[outbox.Entry, error] {
	if err := k.Way.Read(ctx, func() error { return nil }); err != nil {
		return func(yield func(outbox.Entry, error) bool) { yield(outbox.Entry{}, err) }
	}
	return k.Queue.Events(ctx, s)
}

// Redrive implements outbox.Backlog.
func (k QueueLink) Redrive(ctx context.Context, id, destination string) error {
	return k.Way.Over(ctx, func() error { return k.Queue.Redrive(ctx, id, destination) })
}

// Drop implements outbox.Backlog.
func (k QueueLink) Drop(ctx context.Context, id, destination string) error {
	return k.Way.Over(ctx, func() error { return k.Queue.Drop(ctx, id, destination) })
}

// Disable implements outbox.Queue.
func (k QueueLink) Disable(ctx context.Context, destination string, why outbox.Failure) error {
	return k.Way.Over(ctx, func() error { return k.Queue.Disable(ctx, destination, why) })
}

// Enable implements outbox.Queue.
func (k QueueLink) Enable(ctx context.Context, destination string) error {
	return k.Way.Over(ctx, func() error { return k.Queue.Enable(ctx, destination) })
}

// Disabled implements outbox.Queue.
func (k QueueLink) Disabled(ctx context.Context) (ds []outbox.DisabledDestination, err error) {
	err = k.Way.Read(ctx, func() (err error) {
		ds, err = k.Queue.Disabled(ctx)
		return err
	})
	return ds, err
}
