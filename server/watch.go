package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redo-go/redo/store"
)

// errStoreTimeout is the cause when StoreTimeout ends a call to the store.
var errStoreTimeout = errors.New("server: the store took too long")

// A watch bounds each visit to the store and, while the handler runs, renews the lease. One timer does both, for never
// are both needed: a request that is quick starts no goroutine.
type watch struct {
	root  root
	guard sync.Mutex
	phase phase
	due   time.Time
	timer *time.Timer
	asked time.Time // when Reserve was last called
	held  time.Time // when the lease was last asked for and granted

	ctx    context.Context // of every visit, and what the handler's own is made from
	cancel context.CancelCauseFunc
}

type phase uint8

const (
	resting  phase = iota
	visiting       // the timer ends the visit
	beating        // the timer renews the lease
)

// root is a context with the values of the client's request that outlives it, like one of context.WithoutCancel, and
// with the call among them.
type root struct {
	context.Context
	call *execution
}

func (*root) Deadline() (time.Time, bool) { return time.Time{}, false }
func (*root) Done() <-chan struct{}       { return nil }
func (*root) Err() error                  { return nil }

func (r *root) Value(key any) any {
	if key == (callKey{}) {
		return r.call
	}
	return r.Context.Value(key)
}

// open starts the watch, for the first visit.
func (c *execution) open() {
	c.root = root{c.r.Context(), c}
	c.guard.Lock()
	defer c.guard.Unlock()
	c.ctx, c.cancel = context.WithCancelCause(&c.root)
	c.phase, c.due = visiting, time.Now().Add(c.storeTimeout)
	c.timer = time.AfterFunc(c.storeTimeout, c.tick)
}

// close ends it. What still runs in the handler's name is cancelled.
func (c *execution) close() {
	if in, ok := c.own.(*inTransaction); ok {
		in.drop()
	}
	c.rest()
	c.cancel(nil)
}

// visit returns the context for a visit to the store, which ends after StoreTimeout.
func (c *execution) visit() context.Context {
	c.guard.Lock()
	defer c.guard.Unlock()
	c.revive()
	c.arm(visiting, c.storeTimeout)
	return c.ctx
}

// revive replaces a context that has ended: the lease seemed lost, or a visit took too long. What the store has
// answered since, or will answer, is the last word.
func (c *execution) revive() {
	if c.ctx.Err() != nil {
		c.ctx, c.cancel = context.WithCancelCause(&c.root)
	}
}

// hold starts the heartbeat and returns the context for the handler, which ends with the cause store.ErrLost when the
// lease is lost.
func (c *execution) hold() context.Context {
	c.guard.Lock()
	defer c.guard.Unlock()
	c.revive()
	c.held = c.asked // the lease runs from some time after that
	c.arm(beating, c.leaseTTL/3-time.Since(c.held))
	return c.ctx
}

// idle stops the timer and returns the context for a handler that holds no lease.
func (c *execution) idle() context.Context {
	c.guard.Lock()
	defer c.guard.Unlock()
	c.revive()
	c.halt()
	return c.ctx
}

// rest stops the timer until the next visit.
func (c *execution) rest() {
	c.guard.Lock()
	defer c.guard.Unlock()
	c.halt()
}

func (c *execution) halt() {
	c.phase = resting
	c.timer.Stop()
}

func (c *execution) arm(p phase, d time.Duration) {
	c.phase, c.due = p, time.Now().Add(d)
	c.timer.Reset(d)
}

// tick is what the timer runs, on a goroutine of its own.
func (c *execution) tick() {
	c.guard.Lock()
	ctx, p := c.ctx, c.phase
	if p == resting || time.Now().Before(c.due) {
		c.guard.Unlock() // it was stopped or set anew as it went off
		return
	}
	if p == visiting {
		c.cancel(errStoreTimeout)
	}
	c.guard.Unlock()
	if p == beating {
		c.renew(ctx)
	}
}

// renew is the heartbeat. As long as it fails without a clear answer it is tried again; when the lease has run out
// meanwhile, another request may have taken the key over and the handler must not go on.
func (c *execution) renew(ctx context.Context) {
	asked := time.Now()
	visit, done := context.WithTimeout(ctx, c.leaseTTL/3)
	err := c.extend(visit, c.leaseTTL, nil)
	done()

	c.guard.Lock()
	defer c.guard.Unlock()
	if c.phase != beating {
		return
	}
	left := c.leaseTTL - time.Since(c.held)
	switch {
	case err == nil:
		c.held = asked
		c.arm(beating, c.leaseTTL/3)
	case errors.Is(err, store.ErrLost):
		c.phase = resting
		c.cancel(store.ErrLost)
	case left <= 0:
		c.phase = resting
		c.cancel(fmt.Errorf("%w: it ran out and could not be renewed: %w", store.ErrLost, err))
	default:
		c.arm(beating, min(left, c.leaseTTL/10))
	}
}
