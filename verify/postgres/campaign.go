package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/internal/stage"
	"github.com/redo-go/redo/limit"
)

// pairs is the number of operations under way at a time. Two clients call each of them concurrently.
const pairs = 6

// A campaign kills one mode's service and lets clients call it meanwhile.
type campaign struct {
	mode     mode
	kills    int
	url      string
	database *database
	rand     *rand.Rand

	schema, address string
	service         *stage.Process
	clients         [2]*redo.Client
	next            atomic.Int64
	over            atomic.Bool

	mu       sync.Mutex
	answered map[string]int64 // the refund that a key's callers got
}

// run returns the count of the ledger after every operation that was begun has succeeded.
func (c *campaign) run(ctx context.Context) (tally, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	var err error
	if c.schema, err = c.database.tables(ctx); err != nil {
		return tally{}, err
	}
	c.answered = map[string]int64{}
	for i := range c.clients {
		if c.clients[i], err = newClient(); err != nil {
			return tally{}, err
		}
		defer func() { _ = c.clients[i].Close() }()
	}
	if c.address, err = c.start("127.0.0.1:0"); err != nil {
		return tally{}, err
	}
	defer func() { c.service.Kill() }()
	calls := make(chan error, 1)
	go func() { calls <- c.callAll(ctx, cancel) }()
	if err := c.killAll(ctx); err != nil {
		cancel()
		return tally{}, errors.Join(err, <-calls)
	}
	c.over.Store(true)
	if err := <-calls; err != nil {
		return tally{}, err
	}
	return c.count(ctx)
}

// start starts the service, and returns the address that it listens on.
func (c *campaign) start(address string) (string, error) {
	p, err := stage.Start(nil, "service", role{Mode: c.mode.name, Address: address, URL: c.url, Schema: c.schema})
	if err != nil {
		return "", err
	}
	c.service = p
	return p.Up()
}

// newClient returns a client that retries until it has a final response.
func newClient() (*redo.Client, error) {
	return redo.New(redo.WithBudget(limit.Budget{Unlimited: true}), redo.WithRetry(redo.RetryPolicy{
		MaxAttempts: 1 << 20, BaseDelay: 5 * time.Millisecond, MaxDelay: 50 * time.Millisecond,
		MaxElapsed: time.Minute, AttemptTimeout: 5 * time.Second,
	}))
}

// killAll kills the service at random moments, and starts it again.
func (c *campaign) killAll(ctx context.Context) error {
	for range c.kills {
		select {
		case <-time.After(time.Duration(c.rand.Int64N(int64(60 * time.Millisecond)))):
		case <-ctx.Done():
			return ctx.Err()
		}
		c.service.Kill()
		if _, err := c.start(c.address); err != nil {
			return err
		}
	}
	return nil
}

// callAll makes one operation after the other, some at a time, until the kills are over.
func (c *campaign) callAll(ctx context.Context, cancel context.CancelFunc) error {
	failures := make([]error, pairs)
	var all sync.WaitGroup
	for i := range failures {
		all.Go(func() {
			for !c.over.Load() && failures[i] == nil {
				failures[i] = c.twice(ctx, fmt.Sprintf("refund-%d", c.next.Add(1)))
			}
			if failures[i] != nil {
				cancel()
			}
		})
	}
	all.Wait()
	return errors.Join(failures...)
}

// twice calls an operation from two clients concurrently, and requires that both get the same refund.
func (c *campaign) twice(ctx context.Context, key string) error {
	var ids [2]int64
	var failures [2]error
	var both sync.WaitGroup
	for i, client := range c.clients {
		both.Go(func() {
			out, err := redo.Call[Refund](redo.WithKey(ctx, key), client, "POST", "http://"+c.address+"/refunds",
				RefundRequest{Charge: "ch_" + key, Amount: 1000})
			ids[i], failures[i] = out.ID, err
		})
	}
	both.Wait()
	if err := errors.Join(failures[:]...); err != nil {
		return err
	}
	if ids[0] != ids[1] {
		return fmt.Errorf("the callers of %s got two refunds, %d and %d", key, ids[0], ids[1])
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered[key] = ids[0]
	return nil
}
