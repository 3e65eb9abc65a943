package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/taxonomy"
)

// A publisher is an outbox.Publisher over NATS JetStream: an event goes to the subject that its Destination names, and is
// acknowledged once its stream has stored it. The message id is the event's id, so that the stream drops what it got
// within its duplicate window; a consumer deduplicates by the Nats-Msg-Id header over more than that.
type publisher struct{ js jetstream.JetStream }

// Publish implements outbox.Publisher.
func (p publisher) Publish(ctx context.Context, ev outbox.Event) error {
	msg := nats.NewMsg(ev.Destination)
	msg.Data = ev.Payload
	for name, values := range ev.Header {
		msg.Header[name] = values
	}
	// The relay retries: one layer is enough.
	_, err := p.js.PublishMsg(ctx, msg, jetstream.WithMsgID(ev.ID), jetstream.WithRetryAttempts(0))
	return classify(err)
}

// classify puts the errors that repeating the message can't mend apart from those that pass.
func classify(err error) error {
	api, answered := errors.AsType[*jetstream.APIError](err)
	switch {
	case err == nil:
		return nil // also when the stream had the message already
	case errors.Is(err, nats.ErrBadSubject), errors.Is(err, nats.ErrMaxPayload), errors.Is(err, nats.ErrInvalidMsg):
		return outbox.Reject(err)
	case answered && api.Code == 400:
		return outbox.Reject(err) // the stream's own limits
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		// No stream has the subject, or none is up: somebody may make or start it.
		return fmt.Errorf("%w: %w", err, taxonomy.Unavailable)
	case errors.Is(err, nats.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", err, taxonomy.Timeout)
	}
	return fmt.Errorf("%w: %w", err, taxonomy.Unavailable)
}
