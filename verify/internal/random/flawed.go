package random

import (
	"context"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
)

// A FlawedQueue breaks one rule of its contract. A nil function breaks none.
type FlawedQueue struct {
	inbox.Queue
	Enqueued func(*outbox.Event) bool // false: the event is lost
	Settled  func(*outbox.Settlement)
	Drops    bool // a redrive drops
}

// Append implements outbox.Queue.
func (f FlawedQueue) Append(ctx context.Context, events ...outbox.Event) error {
	if f.Enqueued != nil && !f.Enqueued(&events[0]) {
		return nil
	}
	return f.Queue.Append(ctx, events...)
}

// Settle implements outbox.Queue.
func (f FlawedQueue) Settle(ctx context.Context, ended ...outbox.Settlement) ([]outbox.Lease, error) {
	if f.Settled != nil {
		for i := range ended {
			f.Settled(&ended[i])
		}
	}
	return f.Queue.Settle(ctx, ended...)
}

// Redrive implements outbox.Backlog.
func (f FlawedQueue) Redrive(ctx context.Context, id, destination string) error {
	if f.Drops {
		return f.Queue.Drop(ctx, id, destination)
	}
	return f.Queue.Redrive(ctx, id, destination)
}
