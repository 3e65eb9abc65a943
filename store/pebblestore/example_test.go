package pebblestore_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pebblestore"
)

// An operation survives the process: a record that was reserved and not settled is pending, with its meta.
func Example() {
	dir, err := os.MkdirTemp("", "redo")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "payments.pebble")
	ctx := context.Background()

	ops, err := pebblestore.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	_, err = ops.Reserve(ctx, store.Claim{
		ID:        store.ID{Scope: "refunds", Key: "refund:ch_9ab:1000"},
		Retention: 24 * time.Hour,
		Meta:      []byte("the request"),
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := ops.Close(); err != nil {
		log.Fatal(err)
	}

	ops, err = pebblestore.Open(path) // after a crash, for example
	if err != nil {
		log.Fatal(err)
	}
	defer ops.Close()
	for r, err := range ops.Pending(ctx, "refunds") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s is %s: %s\n", r.ID.Key, r.State, r.Meta)
	}
	// Output: refund:ch_9ab:1000 is pending: the request
}
