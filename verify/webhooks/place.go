package main

import (
	"context"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
)

// A place is where a process keeps what it has: redo's records, its own ledger and the outbox, all of them reached by the
// transactions T of one engine.
type place[T any] struct {
	records inbox.TxStore[T]
	books   ledger[T]
	queue   interface {
		outbox.Queue
		outbox.Backlog
	}
	enqueue func(ctx context.Context, tx T, ev outbox.Event) (string, error)
	close   func()
}
