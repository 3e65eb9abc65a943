package outbox_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/boltoutbox"
	"github.com/redo-go/redo/store/boltstore"
)

// An event is enqueued with the change that it tells of, and a relay delivers it under its own id.
func Example() {
	dir, err := os.MkdirTemp("", "redo")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx, stop := context.WithCancel(context.Background())

	consumer := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println("delivered", r.Header.Get("Idempotency-Key"))
		stop()
	}))
	defer consumer.Close()

	st, err := boltstore.Open(filepath.Join(dir, "refunds.redo"))
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	queue, err := boltoutbox.New(ctx, st)
	if err != nil {
		log.Fatal(err)
	}
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

	err = st.Update(ctx, func(tx *boltstore.Tx) error {
		_, err := queue.Enqueue(ctx, tx, outbox.Event{
			ID: "refund-re_1-created", Destination: consumer.URL, Payload: []byte(`{"refund":"re_1"}`),
		})
		return err
	})
	if err != nil {
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
