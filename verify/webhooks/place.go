package main

import (
	"context"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
)

// A place holds the tables of one process: redo's records, its ledger and the outbox. The transactions T of one
// engine reach all of them.
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
