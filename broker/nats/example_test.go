package redonats_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	redonats "github.com/redo-go/redo/broker/nats"
	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store/memstore"
)

// An event that is published twice is one message, and is handled once.
func Example() {
	ctx := context.Background()
	srv, stop := exampleServer()
	defer stop()
	conn, err := nats.Connect(srv.ClientURL())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		fmt.Println(err)
		return
	}
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: "SHOP", Subjects: []string{"shop.>"}, Duplicates: 72 * time.Hour, MaxAge: 7 * 24 * time.Hour,
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	publisher, err := redonats.NewPublisher(js)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 { // as a relay does whose process dies after the first time
		err = publisher.Publish(ctx, outbox.Event{
			ID: "refund:re_1", Destination: "shop.refunds", Payload: []byte(`{"refund":"re_1"}`),
		})
		if err != nil {
			fmt.Println(err)
			return
		}
	}

	events, err := inbox.New(memstore.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	handled := make(chan struct{})
	receive := func(ctx context.Context, ev inbox.Event) (inbox.Receipt, error) {
		return events.Receive(ctx, ev, func(_ context.Context, ev inbox.Event) error {
			fmt.Printf("handling %s of %s: %s\n", ev.ID, ev.Source, ev.Payload)
			close(handled)
			return nil
		})
	}
	consumer, err := stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{Durable: "ledger"})
	if err != nil {
		fmt.Println(err)
		return
	}
	consuming, err := consumer.Consume(redonats.Handler(ctx, "shop", receive))
	if err != nil {
		fmt.Println(err)
		return
	}
	<-handled
	consuming.Drain()
	<-consuming.Closed()
	// Output:
	// handling refund:re_1 of shop: {"refund":"re_1"}
}

// exampleServer starts a NATS server in this process.
func exampleServer() (srv *server.Server, stop func()) {
	dir, err := os.MkdirTemp("", "redonats")
	if err != nil {
		panic(err)
	}
	srv, err = server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true,
	})
	if err != nil {
		panic(err)
	}
	srv.Start()
	return srv, func() {
		srv.Shutdown()
		srv.WaitForShutdown()
		_ = os.RemoveAll(dir)
	}
}
