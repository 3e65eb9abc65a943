package server

import (
	"context"
	"time"

	"github.com/redo-go/redo/internal/settle"
	"github.com/redo-go/redo/store"
)

// The pause between two claims of a waiter doubles from the first to the last, for a key that a transaction holds.
const (
	firstPoll = 25 * time.Millisecond
	lastPoll  = 400 * time.Millisecond
)

// leastPause is the least time between two claims while the record has not changed.
const leastPause = 20 * time.Millisecond

// await waits for the owner of the key, within the route's limit and the client's. It claims the key again whenever the
// record may have changed: only Reserve knows. It returns the last grant, which is InFlight if the time has ended or if
// no place to wait is left.
func (c *execution) await(g store.Grant) (store.Grant, error) {
	id := c.claim.ID
	if !c.sit(id) {
		return g, nil
	}
	defer c.stand(id)
	c.observeWait(1)
	defer c.observeWait(-1)
	c.endCall()
	atMost := c.wait
	if d, ok := budget(c.r.Header); ok {
		atMost = min(atMost, d)
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), atMost)
	defer cancel()
	for pause := firstPoll; ; {
		began, fence := time.Now(), g.Record.Fence
		// A dead owner settles nothing: claim the key again when its lease ends. An open transaction has no lease.
		left := g.Record.LeaseLeft()
		longest := max(left, leastPause)
		if left == 0 {
			longest = lastPoll
		}
		wait, done := context.WithTimeout(ctx, longest)
		_ = c.waiter.Wait(wait, c.claim.ID, fence) // its result is a hint: the next Reserve decides
		done()
		if left == 0 && time.Since(began) < leastPause {
			// The transaction's record is not visible, so this store has nothing to wait for.
			_ = settle.Sleep(ctx, pause)
			pause = min(2*pause, lastPoll)
		}
		if ctx.Err() != nil {
			return g, nil
		}
		var err error
		if g, err = c.reserve(); err != nil || g.Verdict != store.InFlight {
			return g, err
		}
		c.endCall()
		if g.Record.Fence == fence && time.Since(began) < leastPause && !settle.Sleep(ctx, leastPause) {
			return g, nil
		}
	}
}
