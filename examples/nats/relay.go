package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	redonats "github.com/redo-go/redo/broker/nats"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/boltoutbox"
	"github.com/redo-go/redo/store/boltstore"
)

// show relays three events over a new stream, one of them twice.
func show(ctx context.Context, out io.Writer, conn *nats.Conn) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("refunds-%d-%d", os.Getpid(), time.Now().UnixNano())
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: name, Subjects: []string{name + ".>"}, Storage: jetstream.MemoryStorage, Duplicates: 10 * time.Minute,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, js.DeleteStream(context.WithoutCancel(ctx), name)) }()

	dir, err := os.MkdirTemp("", "redo")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	st, err := boltstore.Open(filepath.Join(dir, "refunds.redo"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	queue, err := boltoutbox.New(ctx, st)
	if err != nil {
		return err
	}
	events := []outbox.Event{
		{
			ID: "refund-re_1-created", Destination: name + ".created", OrderingKey: "re_1",
			Payload: []byte(`{"id":"re_1"}`),
		},
		{ID: "refund-re_1-paid", Destination: name + ".paid", OrderingKey: "re_1", Payload: []byte(`{"id":"re_1"}`)},
		{
			ID: "refund-re_2-created", Destination: name + ".created", OrderingKey: "re_2",
			Payload: []byte(`{"id":"re_2"}`),
		},
	}
	err = st.Update(ctx, func(tx *boltstore.Tx) error {
		for _, ev := range events {
			if _, err := queue.Enqueue(ctx, tx, ev); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}

	publisher, err := redonats.NewPublisher(js)
	if err != nil {
		return err
	}
	// A relay that dies after a delivery leaves this state: the stream has the event, and the queue still holds it.
	if err := publisher.Publish(ctx, events[0]); err != nil {
		return err
	}
	fmt.Fprintf(out, "published %s, and died before the queue knew\n", events[0].ID)

	left := len(events)
	relaying, stop := context.WithCancel(ctx)
	defer stop()
	relay, err := outbox.NewRelay(queue, publisher, outbox.Workers(1), outbox.Observe(observer(func(a outbox.Attempt) {
		fmt.Fprintf(out, "relayed %s: %v\n", a.ID, a.Result)
		if left--; left == 0 {
			stop()
		}
	})))
	if err != nil {
		return err
	}
	if err := relay.Run(relaying); err != nil {
		return err
	}
	info, err := stream.Info(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d events were delivered %d times, the stream holds %d messages\n",
		len(events), len(events)+1, info.State.Msgs)
	return nil
}

// observer is an outbox.Observer of attempts.
type observer func(outbox.Attempt)

// ObserveAttempt implements outbox.Observer.
func (f observer) ObserveAttempt(_ context.Context, a outbox.Attempt) { f(a) }

// ObserveQueue implements outbox.Observer.
func (f observer) ObserveQueue(context.Context, outbox.QueueCall) {}
