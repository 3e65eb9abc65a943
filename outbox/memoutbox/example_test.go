package memoutbox_test

import (
	"context"
	"fmt"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/memoutbox"
)

// An event is visible after the Commit of its transaction.
func ExampleNew() {
	ctx := context.Background()
	queue := memoutbox.New()
	tx := queue.Begin()
	id, err := queue.Enqueue(ctx, tx, outbox.Event{ID: "refund:re_1:created", Type: "refund.created"})
	if err != nil {
		panic(err)
	}
	before, _ := queue.Stats(ctx)
	if err := tx.Commit(); err != nil {
		panic(err)
	}
	after, _ := queue.Stats(ctx)
	fmt.Println(id, before.Waiting, after.Waiting)
	// Output: refund:re_1:created 0 1
}
