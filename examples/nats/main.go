// Nats relays an outbox to a NATS JetStream stream, and delivers one event twice to show that the stream keeps it once.
//
//	nats-server -js &
//	go run ./examples/nats [nats://127.0.0.1:4222]
//
// It makes a stream of its own and a temporary file, and removes both. Without a server it says so and ends.
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

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/boltoutbox"
	"github.com/redo-go/redo/store/boltstore"
)

func main() {
	url := nats.DefaultURL
	if len(os.Args) > 1 {
		url = os.Args[1]
	}
	conn, err := nats.Connect(url, nats.Timeout(2*time.Second))
	if errors.Is(err, nats.ErrNoServers) {
		fmt.Printf("no NATS server at %s: start one with \"nats-server -js\"\n", url)
		return
	}
	if err == nil {
		defer conn.Close()
		err = show(context.Background(), os.Stdout, conn)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "nats:", err)
		os.Exit(1)
	}
}

// show tells the story over a stream of its own.
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
		{ID: "refund-re_1-created", Destination: name + ".created", OrderingKey: "re_1", Payload: []byte(`{"refund":"re_1"}`)},
		{ID: "refund-re_1-paid", Destination: name + ".paid", OrderingKey: "re_1", Payload: []byte(`{"refund":"re_1"}`)},
		{ID: "refund-re_2-created", Destination: name + ".created", OrderingKey: "re_2", Payload: []byte(`{"refund":"re_2"}`)},
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

	// What a relay leaves behind that died after its delivery: the stream has the event, and the queue has it still.
	if err := (publisher{js}).Publish(ctx, events[0]); err != nil {
		return err
	}
	fmt.Fprintf(out, "published %s, and died before the queue heard of it\n", events[0].ID)

	left := len(events)
	relaying, stop := context.WithCancel(ctx)
	defer stop()
	relay, err := outbox.NewRelay(queue, outbox.PublisherFunc(func(ctx context.Context, ev outbox.Event) error {
		return publisher{js}.Publish(ctx, ev)
	}), outbox.Workers(1), outbox.Observe(told(func(a outbox.Attempt) {
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
	fmt.Fprintf(out, "%d events were delivered %d times, the stream holds %d messages\n", len(events), len(events)+1, info.State.Msgs)
	return nil
}

// told is an observer of attempts.
type told func(outbox.Attempt)

// ObserveAttempt implements outbox.Observer.
func (f told) ObserveAttempt(_ context.Context, a outbox.Attempt) { f(a) }

// ObserveQueue implements outbox.Observer.
func (f told) ObserveQueue(context.Context, outbox.QueueCall) {}
