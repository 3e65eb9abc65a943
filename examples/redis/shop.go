package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/taxonomy"
)

// shop makes the customers' requests.
func shop(ctx context.Context, out io.Writer, book *orders, copies [2]string) error {
	alice, err := redo.New(redo.WithTransport(signIn("alice")))
	if err != nil {
		return err
	}
	defer func() { _ = alice.Close() }()
	bob, err := redo.New(redo.WithTransport(signIn("bob")))
	if err != nil {
		return err
	}
	defer func() { _ = bob.Close() }()
	suffix := "-" + rand.Text() // the records of an earlier run may still be there
	orderBy := func(client *redo.Client, key string, to, pieces int) (Order, error) {
		return redo.Call[Order](redo.WithKey(ctx, key+suffix), client, "POST", copies[to]+"/orders",
			OrderRequest{Article: "shoes", Pieces: pieces})
	}
	order := func(key string, to, pieces int) (Order, error) { return orderBy(alice, key, to, pieces) }

	first, err := order("order-1138", 0, 1)
	if err != nil {
		return err
	}
	again, err := order("order-1138", 1, 1)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "order-1138: made by copy %d as number %d; the retry, which reached copy 2, got number %d\n",
		first.Copy, first.Number, again.Number)

	var all sync.WaitGroup
	var told [20]Order
	var failures [20]error
	for i := range told {
		all.Go(func() { told[i], failures[i] = order("order-1139", i%2, 1) })
	}
	all.Wait()
	if err := errors.Join(failures[:]...); err != nil {
		return err
	}
	same := 0
	for _, o := range told {
		if o == told[0] {
			same++
		}
	}
	fmt.Fprintf(out, "order-1139: 20 concurrent requests to both copies; %d callers got number %d\n",
		same, told[0].Number)

	_, err = order("order-1139", 0, 7)
	if !errors.Is(err, taxonomy.PayloadMismatch) {
		return fmt.Errorf("another payload under a used key: expected a mismatch, got %w", err)
	}
	fmt.Fprintf(out, "order-1139 for 7 pieces: refused, %v\n", redo.CodeOf(err))

	other, err := orderBy(bob, "order-1138", 1, 1)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "order-1138 of another customer: number %d, another order\n", other.Number)

	made := book.made()
	fmt.Fprintf(out, "\noperations=3 effects=%d\n", made)
	if made != 3 || other.Number == first.Number || same != len(told) || again != first {
		return errors.New("the two copies did not share their records")
	}
	return nil
}
