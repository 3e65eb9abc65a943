package server

import (
	"context"
	"errors"
	"time"

	"github.com/redo-go/redo/store"
)

// How often the outcome is written when the store does not take it, and the pause after the first time, which
// doubles.
const (
	settleTries = 4
	settlePause = 50 * time.Millisecond
)

// record settles the record under this request's lease. An error means that it is not known to be settled: it is
// store.ErrLost when another owner has the key, and the record is left pending otherwise. It is never released, since
// the handler has run.
func (c *call) record(s settlement, result []byte) error {
	err := c.persist(s, store.Outcome{Failed: s == settleFailed, Result: result})
	if err == nil {
		c.settled = true
		c.event.To = store.StateComplete
		if s == settleFailed {
			c.event.To = store.StateFailed
		}
	}
	return err
}

// giveBack releases the key. When that fails the lease runs out, and the next request takes the key over.
func (c *call) giveBack() error {
	err := c.persist(settleRelease, store.Outcome{})
	if err == nil {
		c.settled = true
		c.event.To = 0
	}
	return err
}

// persist makes the one write that ends the lease, with a few tries within StoreTimeout.
func (c *call) persist(s settlement, o store.Outcome) error {
	ctx := c.visit()
	defer c.rest()
	pause, unsure := settlePause, false
	for try := 1; ; try++ {
		err := c.write(ctx, s, o)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, store.ErrUnknown), unsure && errors.Is(err, store.ErrLost):
			// Once an answer was lost, a lease that is gone may be gone because the write was made.
			unsure = true
			err = c.verify(ctx, s)
		}
		if err == nil || errors.Is(err, store.ErrLost) || errors.Is(err, store.ErrInvalid) || try == settleTries {
			c.err = err
			return err
		}
		if !sleep(ctx, pause) {
			c.err = err
			return err
		}
		pause *= 2
	}
}

func (c *call) write(ctx context.Context, s settlement, o store.Outcome) error {
	if s == settleRelease {
		return c.release(ctx)
	}
	return c.complete(ctx, o)
}

// verify reads from the record whether a write whose answer was lost has been made.
func (c *call) verify(ctx context.Context, s settlement) error {
	rec, err := c.find(ctx, c.lease.ID)
	switch {
	case errors.Is(err, store.ErrNotFound) && s == settleRelease:
		return nil
	case errors.Is(err, store.ErrNotFound):
		return store.ErrLost
	case err != nil:
		return errors.Join(store.ErrUnknown, err)
	case rec.Fence != c.lease.Fence:
		return store.ErrLost
	case rec.State == store.StatePending:
		return store.ErrUnknown // it was not made: once more
	}
	return nil
}

// sleep waits for d and reports whether it did: it does not when the context ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
