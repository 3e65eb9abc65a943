// Package redonats brings an outbox's events to NATS JetStream, and the messages of a JetStream consumer to an inbox.
//
//	publisher, err := redonats.NewPublisher(js) // for outbox.NewRelay
//
//	consuming, err := consumer.Consume(redonats.Handler(ctx, "shop", receive))
//
// # Producer
//
// An event's Destination is a subject of a stream. The message carries the event's id as Nats-Msg-Id. The stream drops
// an id that it has stored within its duplicate window. The window is two minutes unless the stream's Duplicates is
// longer. Make it as long as the relay's schedule, or have the consumer use an inbox, which remembers for days.
//
// JetStream deduplicates over the whole stream, not by subject. An event that is enqueued for two subjects needs two
// streams. Publish refuses the second subject of a stream as long as the stream has the first message.
//
// Within JetStream there is no ordering key. A stream keeps the order in which its messages arrive, and the relay
// sends the events of one key one after the other. The key is in the header Ordering-Key.
//
// # Consumer
//
// The consumer needs AckPolicy explicit, which is the default, and no MaxDeliver: the inbox counts attempts and keeps
// dead letters. If the handler may run longer than AckWait, JetStream delivers the message a second time. The inbox
// then refuses the second delivery until the handler ends. A message that fails is delivered again after the inbox's
// RetryAfter. Others overtake it, unless MaxAckPending is 1, with which it stops them all.
//
// # Tested with
//
// nats-server 2.15, the real server, in the test's process.
package redonats

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/redo-go/redo/broker"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/taxonomy"
)

// HeaderOrderingKey carries the event's ordering key. It is absent if the key is empty. A header of that name in the
// event is dropped.
const HeaderOrderingKey = "Ordering-Key"

// A Publisher is an [outbox.Publisher] over JetStream. Create one with [NewPublisher]. It may be used concurrently.
type Publisher struct{ js jetstream.JetStream }

// NewPublisher returns a Publisher. The connection stays the caller's to close, after the relay has ended.
func NewPublisher(js jetstream.JetStream) (*Publisher, error) {
	if js == nil {
		return nil, errors.New("redonats: NewPublisher: the JetStream context is nil")
	}
	return &Publisher{js}, nil
}

// Publish implements [outbox.Publisher]. It returns nil once the stream has stored the event, also if it had stored it
// before. A message that is larger than the server or the stream allows is rejected. Any other error is transient, a
// full account and a sealed stream included. So is a subject without a stream, because the stream may be created later.
func (p *Publisher) Publish(ctx context.Context, ev outbox.Event) error {
	if status := p.js.Conn().Status(); status != nats.CONNECTED {
		// The connection would buffer the message and send it much later.
		return outbox.NotSent(fmt.Errorf("redonats: the connection is %v: %w", status, taxonomy.Unavailable))
	}
	msg := nats.NewMsg(ev.Destination)
	msg.Data = ev.Payload
	msg.Header = nats.Header(broker.Header(ev))
	msg.Header.Del(HeaderOrderingKey) // of the event's own header
	if ev.OrderingKey != "" {
		msg.Header.Set(HeaderOrderingKey, ev.OrderingKey)
	}
	// The relay retries: one layer is enough.
	ack, err := p.js.PublishMsg(ctx, msg, jetstream.WithMsgID(ev.ID), jetstream.WithRetryAttempts(0))
	if err != nil {
		return classify(err)
	}
	if ack.Duplicate {
		return p.confirm(ctx, ev, ack)
	}
	return nil
}

// confirm returns an error if the stream has the id on another subject. If the stream no longer has the message, or
// does not show it, confirm returns nil: the id was stored.
func (p *Publisher) confirm(ctx context.Context, ev outbox.Event, ack *jetstream.PubAck) error {
	stream, err := p.js.Stream(ctx, ack.Stream)
	if err != nil {
		return nil //nolint:nilerr // without permission to read the stream
	}
	msg, err := stream.GetMsg(ctx, ack.Sequence)
	if err != nil || msg.Header.Get(nats.MsgIdHdr) != ev.ID || msg.Subject == ev.Destination {
		return nil //nolint:nilerr // the message is consumed or deleted
	}
	return outbox.Reject(fmt.Errorf("redonats: the stream %s has the id on the subject %s, and keeps an id once",
		ack.Stream, msg.Subject))
}

// classify separates the errors that a repetition can't mend from the others.
func classify(err error) error {
	switch {
	case errors.Is(err, nats.ErrBadSubject), errors.Is(err, nats.ErrMaxPayload), errors.Is(err, nats.ErrInvalidMsg),
		errors.Is(err, jetstream.ErrStreamMessageExceedsMaximum):
		return outbox.Reject(fmt.Errorf("redonats: %w", err))
	case errors.Is(err, nats.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("redonats: %w: %w", err, taxonomy.Timeout)
	case errors.Is(err, context.Canceled):
		return err
	default:
		return fmt.Errorf("redonats: %w: %w", err, taxonomy.Unavailable)
	}
}
