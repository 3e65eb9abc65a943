package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redo-go/redo/internal/stage"
)

const (
	ordersAtATime = 6
	longestLife   = 150 * time.Millisecond // before the next process is killed
)

// A campaign lets the client make orders, and kills any of the processes at random moments. Meanwhile the network
// in front of the producer and the consumer fails at random, and the secret is rotated. The scheduler decides the
// exact moments, so a seed does not repeat a run exactly.
type campaign struct {
	*system
	rand    *rand.Rand
	client  *stage.Process
	done    int // orders
	rotated int // steps of the rotation
}

func (s *system) campaign(ctx context.Context, kills int, r *rand.Rand) (tally, error) {
	c := campaign{system: s, rand: r}
	err := c.begin()
	for k := 0; k < kills && err == nil; k++ {
		err = c.round(ctx, k, kills)
	}
	if err == nil {
		err = c.finish(ctx)
	}
	if err != nil {
		return tally{}, err
	}
	var wanted []string
	for n := range c.done {
		wanted = append(wanted, operationsOf(n)...)
	}
	return s.count(wanted)
}

// begin starts the client on the orders that are not done.
func (c *campaign) begin() (err error) {
	c.client, err = c.play(fmt.Sprintf("orders %d %d", c.done, ordersAtATime))
	return err
}

// round lets all processes work for a moment, and kills one of them.
func (c *campaign) round(ctx context.Context, k, kills int) error {
	for c.rotated < min(len(rotation), (len(rotation)+1)*(k+1)/kills) {
		if err := c.rotate(c.rotated); err != nil {
			return err
		}
		c.rotated++
	}
	for _, name := range []string{"producer", "consumer"} {
		if err := c.script(name, weather(c.rand)); err != nil {
			return err
		}
	}
	if err := c.work(ctx, time.Duration(c.rand.Int64N(int64(longestLife)))); err != nil {
		return err
	}
	victims := append(c.servants(), "client")
	victim := victims[c.rand.IntN(len(victims))]
	c.killed[victim]++
	if victim != "client" {
		return c.restart(victim)
	}
	c.client.Kill()
	return c.begin()
}

// work gives the client orders for as long as d.
func (c *campaign) work(ctx context.Context, d time.Duration) error {
	over := time.NewTimer(d)
	defer over.Stop()
	for {
		select {
		case <-over.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-c.client.Ended:
			if c.client.Wait() == nil { // or it gave up, and begins the same again
				c.done += ordersAtATime
			}
			if err := c.begin(); err != nil {
				return err
			}
		}
	}
}

// finish waits until the client has finished its orders and the relay has delivered everything.
func (c *campaign) finish(ctx context.Context) error {
	if c.client.Wait() != nil {
		if err := c.begin(); err != nil {
			return err
		}
		if err := c.client.Wait(); err != nil {
			return err
		}
	}
	c.done += ordersAtATime
	return c.settled(ctx)
}

// weather draws the faults of the next requests.
func weather(r *rand.Rand) string {
	steps := make([]string, 12)
	for i := range steps {
		switch n := r.IntN(60); {
		case n == 0:
			steps[i] = stage.Limited
		case n < 30:
			steps[i] = []string{stage.Reset, stage.Unavailable, stage.Lose, stage.Truncate}[n%4]
		default:
			steps[i] = stage.None
		}
	}
	return strings.Join(steps, " ")
}
