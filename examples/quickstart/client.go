package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/internal/stage"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/taxonomy"
)

// customer is the client's process: it opens its own file, does one thing, and ends.
type customer struct {
	client  *redo.Client
	url     string
	connect func() (*redo.Client, error) // makes another client of the same store
}

// act runs one scene's part of the client.
func act(r role) error {
	ops, err := boltstore.Open(r.File)
	if err != nil {
		return err
	}
	defer func() { _ = ops.Close() }()
	connect := func() (*redo.Client, error) {
		return redo.New(
			redo.WithStore(ops),
			redo.WithRetry(redo.RetryPolicy{MaxAttempts: 12, MaxElapsed: 15 * time.Second}),
			redo.WithObserver(narrator{}),
		)
	}
	client, err := connect()
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	c := customer{client, "http://" + r.Address, connect}
	run, ok := parts[r.Part]
	if !ok {
		return fmt.Errorf("the client has no part %q", r.Part)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return run(ctx, c)
}

// parts holds the client's part of each scene.
var parts = map[string]func(context.Context, customer) error{
	"pay":        func(ctx context.Context, c customer) error { return c.pay(ctx, "payment:order-1138", 10_000) },
	"lost":       func(ctx context.Context, c customer) error { return c.refund(ctx, "refund:1138:shoes", 1_000) },
	"overload":   func(ctx context.Context, c customer) error { return c.refund(ctx, "refund:1138:hat", 500) },
	"duplicates": duplicates,
	"mismatch":   mismatch,
	"terminal":   terminal,
	"killed":     func(ctx context.Context, c customer) error { return c.refund(ctx, "refund:1138:gloves", 900) },
	"resume":     resume,
	"restart":    func(ctx context.Context, c customer) error { return c.refund(ctx, "refund:1138:belt", 700) },
	"campaign":   campaign,
	"void": func(ctx context.Context, c customer) error {
		_, err := redo.Call[Receipt](redo.WithOperation(ctx, "void:order-1138"), c.client, "POST", c.url+"/voids",
			VoidRequest{Reference: "void:order-1138", Payment: "py_1"})
		return err
	},
}

func (c customer) pay(ctx context.Context, name string, amount int) error {
	_, err := redo.Call[Receipt](redo.WithOperation(ctx, name), c.client, "POST", c.url+"/payments",
		PaymentRequest{Reference: name, Amount: amount})
	return err
}

// refund is all that an application writes: a name, and a call.
func (c customer) refund(ctx context.Context, name string, amount int) error {
	ctx = redo.WithOperation(ctx, name)
	_, err := redo.Call[Receipt](ctx, c.client, "POST", c.url+"/refunds",
		RefundRequest{Reference: name, Payment: "py_1", Amount: amount})
	return err
}

// duplicates calls the same operation ten times concurrently: a double click, a redelivered message. Each call has
// a separate client, since one client would share a single flight.
func duplicates(ctx context.Context, c customer) error {
	errs := make([]error, 10)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			own := c
			if own.client, errs[i] = c.connect(); errs[i] == nil {
				defer func() { _ = own.client.Close() }()
				errs[i] = own.refund(ctx, "refund:1138:scarf", 800)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// mismatch uses a finished operation's name for another payload.
func mismatch(ctx context.Context, c customer) error {
	err := c.refund(ctx, "refund:1138:scarf", 8_000)
	if !errors.Is(err, taxonomy.PayloadMismatch) {
		return fmt.Errorf("expected a payload mismatch, got %w", err)
	}
	voice.Good("the same name with another amount: %s, nothing was sent", redo.CodeOf(err))
	return nil
}

// terminal refunds too much and is refused for good. Then it refunds less: a new try of the same operation.
func terminal(ctx context.Context, c customer) error {
	err := c.refund(ctx, "refund:1138:coat", 99_900)
	e, ok := errors.AsType[*redo.Error](err)
	if !ok || e.Effect != redo.NotApplied || !errors.Is(err, taxonomy.Validation) {
		return fmt.Errorf("expected a refusal, got %w", err)
	}
	voice.Good("not retried, and known not to have been applied: the amount is corrected (%v)", redo.CodeOf(err))
	return c.refund(ctx, "refund:1138:coat", 2_000)
}

// resume finishes the operations that a crash left pending. A program calls it when it starts.
func resume(ctx context.Context, c customer) error {
	for op, err := range c.client.Pending(ctx) {
		if err != nil {
			return err
		}
		voice.Say("found %s pending in its file, under key %s", op.Name, short(op.Key))
		resp, err := c.client.Resume(ctx, op)
		if err != nil {
			return err
		}
		if err := resp.Body.Close(); err != nil {
			return err
		}
		if redo.KeyOf(resp) != op.Key {
			return fmt.Errorf("resumed under another key: %s", redo.KeyOf(resp))
		}
	}
	return nil
}

// campaignSize is the number of operations of the crash campaign.
const campaignSize = 40

// campaign does many refunds, a few at a time. A client that is killed and started again does them all again, and
// a finished refund has no second effect.
func campaign(ctx context.Context, c customer) error {
	errs := make([]error, campaignSize)
	var wg sync.WaitGroup
	places := make(chan struct{}, 8)
	for i := range errs {
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			errs[i] = c.refund(ctx, campaignName(i), 100)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func campaignName(i int) string { return fmt.Sprintf("refund:campaign:%d", i) }

const voice = stage.Voice("client")

// A narrator reports the client's steps. Tracing is added in the same way.
type narrator struct{}

func (narrator) StartOperation(ctx context.Context, _ redo.OperationStart) context.Context {
	return ctx
}

func (narrator) EndOperation(_ context.Context, end redo.OperationEnd) {
	switch {
	case end.Err != nil:
		voice.Say("%s: %s, effect %s", end.Operation, end.Err.Code, end.Effect)
	case end.Stored:
		voice.Good("%s was complete: the client's own file has its result, nothing was sent", end.Operation)
	case end.Replayed:
		voice.Good("%s complete: the service replayed its first response", end.Operation)
	default:
		voice.Good("%s complete", end.Operation)
	}
}

func (narrator) StartAttempt(ctx context.Context, start redo.AttemptStart) context.Context {
	voice.Say("%s: attempt %d, key %s", start.Operation, start.Number, short(start.Key))
	return ctx
}

func (narrator) EndAttempt(_ context.Context, end redo.AttemptEnd) {
	a := end.Attempt
	if a.Wait == 0 {
		return
	}
	what := fmt.Sprint(a.Status, " ", http.StatusText(a.Status))
	if a.Status == 0 {
		what = "no response"
	}
	voice.Say("%s: %s (%s), again in %v", end.Operation, what, a.Code, a.Wait.Round(time.Millisecond))
}

// short is the end of a key: keys of one second begin alike.
func short(key string) string { return "…" + key[max(0, len(key)-8):] }
