package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/internal/stage"
	"github.com/redo-go/redo/limit"
	"github.com/redo-go/redo/store/boltstore"
)

// A customer is the client's process: it opens its own file, does its part, and ends.
type customer struct {
	client *redo.Client
	url    string
}

// act plays the client's part: "payment", "refund NAME CENTS", "void", "orders FIRST COUNT" or "resume".
func act(ctx context.Context, r role) error {
	ops, err := boltstore.Open(r.File)
	if err != nil {
		return err
	}
	defer func() { _ = ops.Close() }()
	client, err := redo.New(
		redo.WithStore(ops),
		redo.WithRetry(redo.RetryPolicy{
			MaxAttempts: 100, BaseDelay: 40 * time.Millisecond, MaxDelay: 200 * time.Millisecond,
			MaxElapsed: stage.Patience,
		}),
		redo.WithBudget(limit.Budget{Unlimited: true}), // a budget is not made for few requests and many faults
		redo.WithObserver(diary{voice: "client"}),
	)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	c := customer{client, r.Producer}
	part := append(strings.Fields(r.Part), "", "")
	switch first, second := part[1], part[2]; part[0] {
	case "payment":
		_, err = c.call(ctx, "payment:1138", "/payments", request{Amount: 100_00})
	case "refund":
		var amount int
		if amount, err = strconv.Atoi(second); err == nil {
			_, err = c.call(ctx, "refund:1138:"+first, "/refunds", request{Payment: "payment_1", Amount: amount})
		}
	case "void":
		_, err = c.call(ctx, "void:1138", "/voids", request{Payment: "payment_1"})
	case "orders":
		err = c.orders(ctx, first, second)
	case "resume":
		err = c.resume(ctx)
	default:
		err = fmt.Errorf("the client has no part %q", r.Part)
	}
	return err
}

// call is all that an application writes: a name, and a call.
func (c customer) call(ctx context.Context, name, path string, in request) (receipt, error) {
	in.Reference = name
	return redo.Call[receipt](redo.WithOperation(ctx, name), c.client, "POST", c.url+path, in)
}

// resume finishes the operations that a crash left pending. A program calls it when it starts.
func (c customer) resume(ctx context.Context) error {
	for op, err := range c.client.Pending(ctx) {
		if err != nil {
			return err
		}
		stage.Voice("client").Say("%s is pending in its file", op.Name)
		resp, err := c.client.Resume(ctx, op)
		if err != nil {
			return err
		}
		if err := resp.Body.Close(); err != nil {
			return err
		}
	}
	return nil
}

// orders makes some of the campaign's orders concurrently. A client that is killed and started again makes them
// again, and an order that is done has no second effect.
func (c customer) orders(ctx context.Context, first, count string) error {
	from, err := strconv.Atoi(first)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = c.order(ctx, from+i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// order makes a payment and refunds a part of it. Every other order is voided then.
func (c customer) order(ctx context.Context, n int) error {
	names := operationsOf(n)
	payment, err := c.call(ctx, names[0], "/payments", request{Amount: 50_00})
	if err != nil {
		return err
	}
	if _, err := c.call(ctx, names[1], "/refunds", request{Payment: payment.ID, Amount: 20_00}); err != nil ||
		len(names) == 2 {
		return err
	}
	_, err = c.call(ctx, names[2], "/voids", request{Payment: payment.ID})
	return err
}

// operationsOf returns the names of the operations of one order.
func operationsOf(n int) []string {
	names := []string{fmt.Sprintf("payment:%d", n), fmt.Sprintf("refund:%d", n)}
	if n%2 == 0 {
		names = append(names, fmt.Sprintf("void:%d", n))
	}
	return names
}

// A diary reports the client's operations.
type diary struct{ voice stage.Voice }

// StartOperation implements [redo.Observer].
func (diary) StartOperation(ctx context.Context, _ redo.OperationStart) context.Context { return ctx }

// EndOperation implements [redo.Observer].
func (d diary) EndOperation(_ context.Context, end redo.OperationEnd) {
	switch {
	case end.Err != nil:
		d.voice.Say("%s: %s, effect %s", end.Operation, end.Err.Code, end.Effect)
	case end.Replayed:
		d.voice.Good("%s complete: the producer replayed its first response", end.Operation)
	case !end.Stored:
		d.voice.Good("%s complete", end.Operation)
	}
}

// StartAttempt implements [redo.Observer].
func (diary) StartAttempt(ctx context.Context, _ redo.AttemptStart) context.Context { return ctx }

// EndAttempt implements [redo.Observer].
func (d diary) EndAttempt(_ context.Context, end redo.AttemptEnd) {
	a := end.Attempt
	if a.Wait == 0 {
		return
	}
	what := http.StatusText(a.Status)
	if a.Status == 0 {
		what = "no response"
	}
	d.voice.Say("%s: %s (%s), again in %v", end.Operation, what, a.Code, a.Wait.Round(time.Millisecond))
}
