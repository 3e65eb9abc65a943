package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
)

// A site is an open store, with the ledger and the outbox that its transactions reach.
type site struct {
	records       store.Store
	transactional server.Option // nil without transactions, as are the next three
	enter         func(ctx context.Context, e effect, ev outbox.Event) error
	effects       func(ctx context.Context) ([]effect, error)
	consume       func(identify inbox.Identify) (http.Handler, error)
	handled       func(ctx context.Context) ([]notice, error)
	queue         queue // nil without an outbox
}

type queue interface {
	outbox.Queue
	outbox.Backlog
}

// books are tables of JSON lines, which the transactions T of a store reach.
type books[T any] struct {
	add  func(ctx context.Context, tx T, book string, line []byte) error
	read func(ctx context.Context, book string) ([][]byte, error)
}

// The books of a site.
const (
	effectBook = "effects"
	noticeBook = "notices"
)

var errNoTransaction = errors.New("the request has no transaction")

func newSite[T any](
	st inbox.TxStore[T], b books[T], q queue, enqueue func(context.Context, T, outbox.Event) (string, error),
) *site {
	return &site{
		records: st, transactional: server.Transactional[T](), queue: q,
		enter: func(ctx context.Context, e effect, ev outbox.Event) error {
			tx, ok := server.Tx[T](ctx)
			if !ok {
				return errNoTransaction
			}
			if err := addLine(ctx, b, tx, effectBook, e); err != nil || enqueue == nil {
				return err
			}
			_, err := enqueue(ctx, tx, ev)
			return err
		},
		effects: func(ctx context.Context) ([]effect, error) { return readLines[effect](ctx, b, effectBook) },
		consume: func(identify inbox.Identify) (http.Handler, error) {
			events, err := inbox.NewTransactional(st, inbox.MaxAttempts(1<<20), inbox.LeaseTTL(leaseTTL))
			if err != nil {
				return nil, err
			}
			return events.Handler(identify, func(ctx context.Context, tx T, ev inbox.Event) error {
				var n notice
				if err := json.Unmarshal(ev.Payload, &n); err != nil {
					return err
				}
				return addLine(ctx, b, tx, noticeBook, n)
			}), nil
		},
		handled: func(ctx context.Context) ([]notice, error) { return readLines[notice](ctx, b, noticeBook) },
	}
}

func addLine[T any](ctx context.Context, b books[T], tx T, book string, line any) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	return b.add(ctx, tx, book, text)
}

func readLines[L, T any](ctx context.Context, b books[T], book string) ([]L, error) {
	texts, err := b.read(ctx, book)
	if err != nil {
		return nil, err
	}
	lines := make([]L, len(texts))
	for i, text := range texts {
		if err := json.Unmarshal(text, &lines[i]); err != nil {
			return nil, err
		}
	}
	return lines, nil
}
