package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/store/memstore"
)

// A queue delivers an event twice: it is handled once, and both deliveries are acknowledged.
func ExampleInbox_Receive() {
	events, err := inbox.New(memstore.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	credit := func(_ context.Context, ev inbox.Event) error {
		fmt.Println("crediting for", ev.ID)
		return nil
	}
	for range 2 {
		ev := inbox.Event{Source: "bank", ID: "ev_001", Payload: []byte(`{"amount":1000}`)}
		receipt, err := events.Receive(context.Background(), ev, credit)
		fmt.Println(receipt.Status, err)
	}
	// Output:
	// crediting for ev_001
	// processed <nil>
	// replayed <nil>
}

// The credit and the mark of its event are one commit. No crash leaves the one without the other.
func ExampleNewTransactional() {
	dir, err := os.MkdirTemp("", "redo")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	st, err := boltstore.Open(filepath.Join(dir, "bank.redo"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = st.Close() }()
	events, err := inbox.NewTransactional(st)
	if err != nil {
		fmt.Println(err)
		return
	}
	credit := func(_ context.Context, tx *boltstore.Tx, ev inbox.Event) error {
		ledger, err := tx.CreateBucketIfNotExists([]byte("ledger"))
		if err != nil {
			return err
		}
		return ledger.Put([]byte(ev.ID), ev.Payload)
	}
	ctx := context.Background()
	for range 2 {
		receipt, err := events.Receive(ctx, inbox.Event{Source: "bank", ID: "ev_001", Payload: []byte("10.00")}, credit)
		fmt.Println(receipt.Status, err)
	}
	_ = st.View(ctx, func(tx *boltstore.Tx) error {
		fmt.Printf("ev_001: %s\n", tx.Bucket([]byte("ledger")).Get([]byte("ev_001")))
		return nil
	})
	// Output:
	// processed <nil>
	// replayed <nil>
	// ev_001: 10.00
}

// An event that can't be handled is kept, and an operator redrives it after a repair.
func ExampleInbox_Redrive() {
	ctx := context.Background()
	events, err := inbox.New(memstore.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	receipt, err := events.Receive(ctx, inbox.Event{Source: "bank", ID: "ev_002", Payload: []byte(`{}`)},
		func(context.Context, inbox.Event) error { return inbox.Reject(errors.New("no amount")) })
	fmt.Println(receipt.Status, err)

	for letter, err := range events.DeadLetters(ctx, "bank") {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(letter.ID, "after", letter.Attempts, "attempt:", letter.Failure)
		receipt, err := events.Redrive(ctx, letter.Source, letter.ID, func(context.Context, inbox.Event) error {
			return nil
		})
		fmt.Println(receipt.Status, err)
	}
	// Output:
	// dead-lettered <nil>
	// ev_002 after 1 attempt: inbox: event rejected: no amount
	// processed <nil>
}
