package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/internal/stage"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/webhook"
)

// relay is the relay's process, on Postgres.
func relay(ctx context.Context, r role) error {
	p, err := inSchema(ctx, r.Postgres, r.Schema)
	if err != nil {
		return err
	}
	defer p.close()
	deliver, err := newRelay(p.queue, r.Secrets)
	if err != nil {
		return err
	}
	stage.Up("")
	return deliver.Run(ctx)
}

// newRelay sends the queue's events as webhooks that are signed with all of the secrets. Its waits are short
// because the story is short. The default schedule takes three days.
func newRelay(queue outbox.Queue, secrets []secret) (*outbox.Relay, error) {
	keys, err := parsed(secrets)
	if err != nil {
		return nil, err
	}
	signer, err := webhook.NewSigner(keys)
	if err != nil {
		return nil, err
	}
	// On a reused connection net/http repeats a request that gets no response. That is safe, since the key is the
	// same, but the story would not show it.
	network := &http.Transport{DisableKeepAlives: true}
	client, err := redo.New(redo.WithTransport(signer.Transport(network)))
	if err != nil {
		return nil, err
	}
	publisher, err := outbox.HTTP(client)
	if err != nil {
		return nil, err
	}
	return outbox.NewRelay(queue, publisher,
		outbox.LeaseTTL(300*time.Millisecond), // how long the events of a killed relay rest
		outbox.PollInterval(50*time.Millisecond),
		outbox.Retry(slices.Repeat([]time.Duration{100 * time.Millisecond}, 1000)...),
		outbox.AttemptTimeout(5*time.Second),
		outbox.Breaker(0), // the story kills the consumer now and then: no rest until it is back
		outbox.Observe(narrator{voice: "relay"}),
	)
}

// A narrator reports the relay's attempts.
type narrator struct{ voice stage.Voice }

// ObserveAttempt implements [outbox.Observer].
func (n narrator) ObserveAttempt(_ context.Context, a outbox.Attempt) {
	switch a.Result {
	case outbox.Sent:
		n.voice.Good("%s delivered with attempt %d", a.ID, a.Number)
	case outbox.Waiting:
		n.voice.Say("%s: attempt %d: %s, again in %v", a.ID, a.Number, a.Code, a.Wait.Round(time.Millisecond))
	case outbox.Dead:
		n.voice.Say("%s: attempt %d: %s, given up: %v", a.ID, a.Number, a.Code, a.Err)
	}
}

// ObserveQueue implements [outbox.Observer].
func (narrator) ObserveQueue(context.Context, outbox.QueueCall) {}

// A secret is shared by the relay and the consumer. Its name shows in the reports which one is in use.
type secret struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

const (
	oldSecret = "old"
	newSecret = "new"
)

func makeSecret(name string) (secret, error) {
	s, err := webhook.NewSecret(nil)
	return secret{name, s.Reveal()}, err
}

func parsed(secrets []secret) ([]webhook.Secret, error) {
	keys := make([]webhook.Secret, len(secrets))
	for i, s := range secrets {
		var err error
		if keys[i], err = webhook.ParseSecret(s.Text); err != nil {
			return nil, fmt.Errorf("the %s secret: %w", s.Name, err)
		}
	}
	return keys, nil
}
