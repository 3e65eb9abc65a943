package inbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox/boltoutbox"
	"github.com/redo-go/redo/outbox/memoutbox"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/webhook"
)

// The delivery is acknowledged before the event is handled.
func ExampleAccept() {
	events, err := inbox.New(memstore.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	accepted, err := inbox.Accept(memoutbox.New(), events.Receiver(func(_ context.Context, ev inbox.Event) error {
		fmt.Println("crediting for", ev.ID)
		stop()
		return nil
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	receipt, err := accepted.Receive(ctx, inbox.Event{Source: "bank", ID: "ev_001", Payload: []byte(`{"amount":1000}`)})
	fmt.Println(receipt.Status, err)
	fmt.Println(accepted.Run(ctx))
	// Output:
	// accepted <nil>
	// crediting for ev_001
	// <nil>
}

// Records, queue and effects are in one file.
func acceptRefunds(ctx context.Context, st *boltstore.Store, verifier *webhook.Verifier, mux *http.ServeMux) error {
	events, err := inbox.NewTransactional(st)
	if err != nil {
		return err
	}
	queue, err := boltoutbox.New(ctx, st, boltoutbox.WithBucket("redo-inbox"))
	if err != nil {
		return err
	}
	accepted, err := inbox.Accept(queue, events.Receiver(enterRefund))
	if err != nil {
		return err
	}
	mux.Handle("POST /webhooks/bank", verifier.Handler(accepted.Handler(inbox.Delivered("bank"))))
	return accepted.Run(ctx) // until ctx ends
}

func enterRefund(_ context.Context, tx *boltstore.Tx, ev inbox.Event) error {
	if !json.Valid(ev.Payload) {
		return inbox.Reject(fmt.Errorf("event %s is not JSON", ev.ID))
	}
	b, err := tx.CreateBucketIfNotExists([]byte("refunds"))
	if err != nil {
		return err
	}
	return b.Put([]byte(ev.ID), ev.Payload)
}
