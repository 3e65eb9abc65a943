package main

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/internal/stage"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/webhook"
)

// runRelay is the relay's process, for an outbox that several processes use.
func runRelay(ctx context.Context, r role) error {
	at, err := r.Place.open(ctx, r.Dir, "service")
	if err != nil {
		return err
	}
	stage.Up("")
	return relay(ctx, at.queue, r)
}

// relay sends the events of the queue as signed webhooks until the process is killed.
func relay(ctx context.Context, q outbox.Queue, r role) error {
	secret, err := webhook.ParseSecret(r.Secret)
	if err != nil {
		return err
	}
	signer, err := webhook.NewSigner([]webhook.Secret{secret})
	if err != nil {
		return err
	}
	client, err := redo.New(redo.WithTransport(signer.Transport(&http.Transport{})))
	if err != nil {
		return err
	}
	publisher, err := outbox.HTTP(client)
	if err != nil {
		return err
	}
	relay, err := outbox.NewRelay(q, publisher,
		outbox.LeaseTTL(leaseTTL), outbox.PollInterval(50*time.Millisecond), outbox.AttemptTimeout(2*time.Second),
		outbox.Retry(slices.Repeat([]time.Duration{50 * time.Millisecond}, 1000)...), // no event may die
		outbox.HintCap(100*time.Millisecond), outbox.Breaker(0))
	if err != nil {
		return err
	}
	return relay.Run(ctx)
}

// runConsumer is the consumer's process. Its inbox and its notices are one transaction.
func runConsumer(ctx context.Context, r role) error {
	at, err := r.Place.open(ctx, r.Dir, "consumer")
	if err != nil {
		return err
	}
	secret, err := webhook.ParseSecret(r.Secret)
	if err != nil {
		return err
	}
	verifier, err := webhook.NewVerifier([]webhook.Secret{secret})
	if err != nil {
		return err
	}
	identify := inbox.Delivered("service")
	if r.Defect == noInbox {
		identify = func(req *http.Request) (inbox.Event, error) {
			ev, err := inbox.Delivered("service")(req)
			ev.ID = randomName()
			return ev, err
		}
	}
	h, err := at.consume(identify)
	if err != nil {
		return err
	}
	stage.On("handled", func([]string) (any, error) { return at.handled(context.Background()) })
	mux := http.NewServeMux()
	mux.Handle("POST /events", verifier.Handler(h))
	return listen(mux)
}
