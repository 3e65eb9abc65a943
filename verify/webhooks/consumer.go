package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/internal/stage"
	"github.com/redo-go/redo/webhook"
)

// consume is the consumer's process.
func consume(ctx context.Context, r role) error {
	if r.Postgres != "" {
		p, err := inSchema(ctx, r.Postgres, r.Schema)
		if err != nil {
			return err
		}
		defer p.close()
		return serveConsumer(p, r)
	}
	p, err := inFile(ctx, r.File)
	if err != nil {
		return err
	}
	defer p.close()
	return serveConsumer(p, r)
}

type consumer[T any] struct {
	*place[T]
	source  string // of the webhooks: ids of different sources don't meet
	secrets []secret
	voice   stage.Voice
}

// handler verifies each webhook and hands it to the inbox, which gives each event to apply once.
func (c *consumer[T]) handler() (http.Handler, error) {
	keys, err := parsed(c.secrets)
	if err != nil {
		return nil, err
	}
	verifier, err := webhook.NewVerifier(keys)
	if err != nil {
		return nil, err
	}
	events, err := inbox.NewTransactional(c.records)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /webhooks/"+c.source, verifier.Handler(events.Handler(c.delivered, c.apply)))
	return mux, nil
}

// delivered is inbox.Delivered, and checks the producer's promise that the webhook-id is the Idempotency-Key.
func (c *consumer[T]) delivered(r *http.Request) (inbox.Event, error) {
	ev, err := inbox.Delivered(c.source)(r)
	if err == nil && r.Header.Get("Idempotency-Key") != ev.ID {
		err = errors.New("the webhook-id and the Idempotency-Key differ")
	}
	return ev, err
}

// apply enters the webhook's refund, payment or void, in the transaction that settles the event.
func (c *consumer[T]) apply(ctx context.Context, tx T, ev inbox.Event) error {
	var n notice
	if err := json.Unmarshal(ev.Payload, &n); err != nil {
		return inbox.Reject(err) // it will not get better
	}
	number, err := c.books.next(ctx, tx)
	if err != nil {
		return err
	}
	delivery, _ := webhook.FromContext(ctx)
	e := entry{
		Number: number, ID: n.ID, Kind: n.Kind, Key: ev.ID, Reference: n.Reference, Payment: n.Payment,
		Amount:   n.Amount,
		Verified: c.secrets[delivery.Secret].Name,
	}
	if err := c.books.enter(ctx, tx, e); err != nil {
		return err
	}
	c.voice.Say("%s: the %s secret signed it; its entry and its mark: one transaction", ev.ID, e.Verified)
	return nil
}

func serveConsumer[T any](p *place[T], r role) error {
	c := &consumer[T]{p, "bank", r.Secrets, "consumer"}
	h, err := c.handler()
	if err != nil {
		return fmt.Errorf("the consumer: %w", err)
	}
	stage.On("entries", func([]string) (any, error) { return c.books.entries(context.Background()) })
	return stage.Serve(r.Address, c.voice, h)
}
