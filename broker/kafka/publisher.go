// Package redokafka brings an outbox's events to Kafka, and the records of a consumer group to an inbox.
//
//	client, err := kgo.NewClient(kgo.SeedBrokers("localhost:9092"))
//	publisher, err := redokafka.NewPublisher(client) // for outbox.NewRelay
//
//	consumer, err := redokafka.NewConsumer("shop", receive,
//		kgo.SeedBrokers("localhost:9092"), kgo.ConsumerGroup("ledger"), kgo.ConsumeTopics("refunds"))
//	err = consumer.Run(ctx)
//
// # Producer
//
// An event's Destination is a topic. The record's key is the ordering key, or the event's id if there is none. So the
// events of one ordering key are in one partition, in order. Header names keep their case.
//
// Kafka does not deduplicate by id. Its idempotent producer recognizes only the repetitions that one client makes
// internally. An event that a relay publishes twice is two records with one id, and the inbox of the consumer
// handles it once.
//
// # Consumer
//
// A record's offset is committed after Receive has returned nil for it and for all records before it in its partition.
// While an event fails, the records behind it in its partition wait. That is the price of order. The inbox ends it:
// after its MaxAttempts the event is a dead letter, nine minutes with the inbox's defaults. Other partitions go on. A
// record that [broker.Refused] holds for stops its partition until a Receive takes it.
//
// # Tested with
//
// kfake of franz-go, an emulator in the test's process. It has not been tested with a real Kafka.
package redokafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/redo-go/redo/broker"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/taxonomy"
)

// A Publisher is an [outbox.Publisher] over Kafka. Create one with [NewPublisher]. It may be used concurrently.
type Publisher struct{ client *kgo.Client }

// NewPublisher returns a Publisher. It refuses a client that does not wait for all in-sync replicas, or whose
// idempotent writes are disabled. Both are franz-go's defaults. The client stays the caller's to close, after the
// relay has ended.
func NewPublisher(client *kgo.Client) (*Publisher, error) {
	switch {
	case client == nil:
		return nil, errors.New("redokafka: NewPublisher: the client is nil")
	case client.OptValue(kgo.RequiredAcks) != kgo.AllISRAcks():
		return nil, errors.New("redokafka: NewPublisher: RequiredAcks must be AllISRAcks, or acknowledged " +
			"events can be lost")
	case client.OptValue(kgo.DisableIdempotentWrite) == true:
		return nil, errors.New("redokafka: NewPublisher: with DisableIdempotentWrite a retry can change the order")
	}
	return &Publisher{client}, nil
}

// Publish implements [outbox.Publisher]. It returns nil once all in-sync replicas have the record. A record that is
// too large, or that breaks a rule of the topic, is rejected. Any other error is transient, a missing topic and
// missing rights included. If ctx ends first, the outcome is unknown: the client may still write the record.
func (p *Publisher) Publish(ctx context.Context, ev outbox.Event) error {
	if ev.Destination == "" {
		return outbox.Reject(errors.New("redokafka: the event has no destination: it is the topic"))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	written := make(chan error, 1)
	p.client.Produce(ctx, record(ev), func(_ *kgo.Record, err error) { written <- err })
	select {
	case err := <-written:
		return classify(err)
	case <-ctx.Done():
		// The client waits longer for a record that is in flight, to learn its outcome.
		return classify(ctx.Err())
	}
}

// record returns the event as a record.
func record(ev outbox.Event) *kgo.Record {
	r := &kgo.Record{Topic: ev.Destination, Key: []byte(ev.OrderingKey), Value: ev.Payload}
	if ev.OrderingKey == "" {
		r.Key = []byte(ev.ID)
	}
	for name, values := range broker.Header(ev) {
		for _, v := range values {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(v)})
		}
	}
	return r
}

// classify separates the errors that a repetition can't mend from the others.
func classify(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge),
		errors.Is(err, kerr.InvalidRecord),
		errors.Is(err, kerr.InvalidTimestamp), errors.Is(err, kerr.InvalidTopicException):
		return outbox.Reject(fmt.Errorf("redokafka: %w", err))
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, kgo.ErrRecordTimeout):
		return fmt.Errorf("redokafka: %w: %w", err, taxonomy.Timeout)
	default:
		return fmt.Errorf("redokafka: %w: %w", err, taxonomy.Unavailable)
	}
}
