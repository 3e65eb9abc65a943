// Package redopubsub brings an outbox's events to Google Cloud Pub/Sub, and the messages of a subscription to an inbox.
//
//	publisher, err := redopubsub.NewPublisher(client) // for outbox.NewRelay
//
//	err = client.Subscriber("ledger").Receive(ctx, redopubsub.Handler("shop", receive))
//
// # Producer
//
// An event's Destination is a topic: its full name "projects/P/topics/T", or T for a topic of the client's project. The
// event's id, type and header are attributes. Several values of one name are joined by ", ". The ordering key is the
// message's.
//
// Pub/Sub does not deduplicate by id: an event that a relay publishes twice is two messages with one id. Exactly-once
// delivery is a property of a subscription, and concerns one message. The inbox of the consumer handles both once.
//
// A message with an ordering key keeps its order only if all its publishers use one region. Give the client the
// endpoint of a region for that.
//
// # Consumer
//
// A message is acknowledged after Receive has returned nil. While an event fails, its message stays with this
// consumer, which gives it to Receive again after the inbox's RetryAfter. The messages behind it in its ordering
// key wait. It occupies one of the ReceiveSettings' MaxOutstandingMessages, a thousand by default, until the inbox
// makes a dead letter of it. A message that [broker.Refused] holds for goes back to Pub/Sub immediately. Give the
// subscription a dead-letter topic for those, with a retry policy, or Pub/Sub delivers them without end.
//
// # Tested with
//
// pstest of the client library, an emulator in the test's process. It has not been tested with Pub/Sub itself. The
// emulator has no limits and no access rights. The tests send such errors as the API's documentation describes them.
package redopubsub

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/redo-go/redo/broker"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/taxonomy"
)

// A Publisher is an [outbox.Publisher] over Pub/Sub. Create one with [NewPublisher]. It may be used concurrently.
type Publisher struct{ client *pubsub.Client }

// NewPublisher returns a Publisher. The client stays the caller's to close, after the relay has ended.
func NewPublisher(client *pubsub.Client) (*Publisher, error) {
	if client == nil {
		return nil, errors.New("redopubsub: NewPublisher: the client is nil")
	}
	return &Publisher{client}, nil
}

// Publish implements [outbox.Publisher]. Each event is one request: the client library's own publisher would collect
// messages in batches, and stop an ordering key at its first error. Publish returns nil once Pub/Sub has stored the
// message. A message that Pub/Sub finds invalid or too large is rejected. Any other error is transient, a missing
// topic and missing rights included.
func (p *Publisher) Publish(ctx context.Context, ev outbox.Event) error {
	topic := ev.Destination
	if topic == "" {
		return outbox.Reject(errors.New("redopubsub: the event has no destination: it is the topic"))
	}
	if !strings.Contains(topic, "/") {
		topic = fmt.Sprintf("projects/%s/topics/%s", p.client.Project(), topic)
	}
	msg := &pubsubpb.PubsubMessage{Data: ev.Payload, OrderingKey: ev.OrderingKey, Attributes: map[string]string{}}
	for name, values := range broker.Header(ev) {
		msg.Attributes[name] = strings.Join(values, ", ")
	}
	_, err := p.client.TopicAdminClient.Publish(ctx, &pubsubpb.PublishRequest{
		Topic: topic, Messages: []*pubsubpb.PubsubMessage{msg},
	}, gax.WithRetry(nil)) // the relay retries: one layer is enough
	return classify(ctx, err)
}

// classify separates the errors that a repetition can't mend from the others.
func classify(ctx context.Context, err error) error {
	switch code := status.Code(err); {
	case err == nil:
		return nil
	case code == codes.InvalidArgument:
		return outbox.Reject(fmt.Errorf("redopubsub: %w", err))
	case code == codes.Canceled && ctx.Err() != nil:
		return fmt.Errorf("redopubsub: %w: %w", ctx.Err(), err)
	case code == codes.DeadlineExceeded:
		return fmt.Errorf("redopubsub: %w: %w", err, taxonomy.Timeout)
	default:
		return fmt.Errorf("redopubsub: %w: %w", err, taxonomy.Unavailable)
	}
}
