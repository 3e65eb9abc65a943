package boltstore_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
)

// An operation survives the process: what was reserved and not settled is found pending, with its meta.
func Example() {
	dir, err := os.MkdirTemp("", "redo")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "payments.redo")
	ctx := context.Background()

	ops, err := boltstore.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	_, err = ops.Reserve(ctx, store.Claim{
		ID:        store.ID{Scope: "refunds", Key: "refund:ch_9ab:1000"},
		Retention: 24 * time.Hour,
		Meta:      []byte("what to send"),
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := ops.Close(); err != nil {
		log.Fatal(err)
	}

	ops, err = boltstore.Open(path) // after a crash, say
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
	// Output: refund:ch_9ab:1000 is pending: what to send
}
