package server

import (
	"context"
	"time"

	"github.com/redo-go/redo/store"
)

// spurious is the least time between two looks at a record that has not changed, whatever wakes the waiter.
const spurious = 20 * time.Millisecond

// await waits for the owner of the key, within the route's limit and the client's, and claims the key again each
// time there may be something new: only Reserve tells what. It returns the last grant, which is still InFlight
// when the time is over or the waiting room is full.
func (c *execution) await(g store.Grant) (store.Grant, error) {
	select {
	case c.places <- struct{}{}:
		defer func() { <-c.places }()
	default:
		return g, nil
	}
	c.rest()
	atMost := c.wait
	if d, ok := budget(c.r.Header); ok {
		atMost = min(atMost, d)
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), atMost)
	defer cancel()
	for pause := firstPoll; ; {
		asked, fence := time.Now(), g.Record.Fence
		// A dead owner settles nothing: look again when its lease is over. An open transaction has no lease.
		left := g.Record.LeaseLeft()
		look := max(left, spurious)
		if left == 0 {
			look = lastPoll
		}
		visit, done := context.WithTimeout(ctx, look)
		_ = c.waiter.Wait(visit, c.claim.ID, fence) // whatever ended it, the next Reserve tells
		done()
		if left == 0 && time.Since(asked) < spurious {
			// Nor has it a record that could be seen, and this store has found nothing to wait for.
			_ = sleep(ctx, pause)
			pause = min(2*pause, lastPoll)
		}
		if ctx.Err() != nil {
			return g, nil
		}
		var err error
		if g, err = c.reserve(); err != nil || g.Verdict != store.InFlight {
			return g, err
		}
		c.rest()
		if g.Record.Fence == fence && time.Since(asked) < spurious && !sleep(ctx, spurious) {
			return g, nil
		}
	}
}
