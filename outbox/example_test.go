package outbox_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/memoutbox"
)

// An event is enqueued with the change that it reports, and a relay delivers it under the event's id.
func Example() {
	ctx, stop := context.WithCancel(context.Background())

	consumer := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println("delivered", r.Header.Get("Idempotency-Key"))
		stop()
	}))
	defer consumer.Close()

	queue := memoutbox.New() // boltoutbox and pgoutbox survive the process
	client, err := redo.New()
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	publisher, err := outbox.HTTP(client)
	if err != nil {
		log.Fatal(err)
	}
	relay, err := outbox.NewRelay(queue, publisher)
	if err != nil {
		log.Fatal(err)
	}

	tx := queue.Begin()
	_, err = queue.Enqueue(ctx, tx, outbox.Event{
		ID: "refund-re_1-created", Destination: consumer.URL, Payload: []byte(`{"refund":"re_1"}`),
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		log.Fatal(err)
	}
	if err := relay.Run(ctx); err != nil { // until ctx ends
		log.Fatal(err)
	}
	stats, err := queue.Stats(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stats.Waiting, "left")
	// Output:
	// delivered refund-re_1-created
	// 0 left
}
