package boltoutbox_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/boltoutbox"
	"github.com/redo-go/redo/store/boltstore"
)

// The refund and its event are one commit: neither is ever there without the other.
func Example() {
	dir, err := os.MkdirTemp("", "redo")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()

	st, err := boltstore.Open(filepath.Join(dir, "refunds.redo"))
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	queue, err := boltoutbox.New(ctx, st)
	if err != nil {
		log.Fatal(err)
	}

	err = st.Update(ctx, func(tx *boltstore.Tx) error { // or the transaction of server.Tx
		refunds, err := tx.CreateBucketIfNotExists([]byte("refunds"))
		if err != nil {
			return err
		}
		if err := refunds.Put([]byte("re_1"), []byte("1000")); err != nil {
			return err
		}
		_, err = queue.Enqueue(ctx, tx, outbox.Event{
			ID:          "refund-re_1-created",
			Destination: "https://shop.example/webhooks",
			OrderingKey: "re_1",
			Payload:     []byte(`{"type":"refund.created","refund":"re_1"}`),
		})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}

	stats, err := queue.Stats(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stats.Waiting, "event waits for a relay")
	// Output: 1 event waits for a relay
}
