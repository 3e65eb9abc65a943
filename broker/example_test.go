package broker_test

import (
	"context"
	"fmt"

	"github.com/redo-go/redo/broker"
	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/store/memstore"
)

// An event that the inbox refuses for good is kept elsewhere, so that it does not return.
func ExampleRefused() {
	events, err := inbox.New(memstore.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	park := func(_ context.Context, ev inbox.Event) error { // yours
		fmt.Println("parked", len(ev.Payload), "bytes")
		return nil
	}
	handle := func(context.Context, inbox.Event) error { return nil }

	receive := func(ctx context.Context, ev inbox.Event) (inbox.Receipt, error) {
		receipt, err := events.Receive(ctx, ev, handle)
		if broker.Refused(err) {
			return inbox.Receipt{}, park(ctx, ev)
		}
		return receipt, err
	}

	_, err = receive(context.Background(), inbox.Event{Source: "shop", ID: "ev_1", Payload: make([]byte, 2<<20)})
	fmt.Println("acknowledged:", err == nil)
	// Output:
	// parked 2097152 bytes
	// acknowledged: true
}
