package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/store"
)

// A leaseTimer bounds each call to the store, and renews the lease while the handler runs. One timer does both,
// because they never overlap. A quick request sets it once, and starts no goroutine.
type leaseTimer struct {
	root requestContext

	guard   sync.Mutex // guards the fields below
	phase   phase
	due     time.Time // when the phase ends
	fires   time.Time // when the timer fires, at due or earlier; zero if it is not set
	timer   *time.Timer
	held    time.Time       // when the lease was last asked for and granted
	renewal chan struct{}   // closed when the last renewal has ended; nil before the first
	ctx     context.Context // for the calls to the store; the handler's context is made from it
	cancel  context.CancelCauseFunc
}

// A phase is the current purpose of the timer.
type phase uint8

const (
	idle     phase = iota // nothing
	calling               // to end a call to the store
	renewing              // to renew the lease
)

// A requestContext has the values of the client's request and outlives it, like one of context.WithoutCancel. The
// execution is among its values.
type requestContext struct {
	context.Context
	call *execution
}

func (*requestContext) Deadline() (time.Time, bool) { return time.Time{}, false }
func (*requestContext) Done() <-chan struct{}       { return nil }
func (*requestContext) Err() error                  { return nil }

func (r *requestContext) Value(key any) any {
	if key == (callKey{}) {
		return r.call
	}
	v := r.Context.Value(key)
	if v == nil && key == http.ServerContextKey {
		return wire.NoServer
	}
	return v
}

// start makes the contexts. A stop must follow.
func (c *execution) start() {
	c.root = requestContext{c.r.Context(), c}
	c.ctx, c.cancel = context.WithCancelCause(&c.root)
}

// stop ends the timer, and cancels the work that the handler has left running.
func (c *execution) stop() {
	if in, ok := c.own.(*txOwnership); ok {
		in.drop()
	}
	c.guard.Lock()
	c.phase = idle
	if c.timer != nil {
		c.timer.Stop()
	}
	c.guard.Unlock()
	if !c.kept {
		c.running.remove(c.gate, c.lease)
	}
	c.cancel(nil)
}

// callContext returns the context for one or more calls to the store, which ends StoreTimeout after now.
func (c *execution) callContext(now time.Time) context.Context {
	c.guard.Lock()
	defer c.guard.Unlock()
	c.revive()
	c.enter(calling, now, now.Add(c.storeTimeout))
	return c.ctx
}

// revive replaces a context that has ended, because the lease seemed lost or a call took too long. The store decides.
func (c *execution) revive() {
	if c.ctx.Err() != nil {
		c.ctx, c.cancel = context.WithCancelCause(&c.root)
	}
}

// hold starts to renew the lease, which was asked for at the given time. It returns the context for the handler,
// which ends with the cause store.ErrLost when the lease is lost.
func (c *execution) hold(asked, now time.Time) context.Context {
	c.guard.Lock()
	defer c.guard.Unlock()
	c.revive()
	c.held = asked // the lease lasts from some time after that
	if c.failOpen {
		c.exclude() // without the store, only this process knows that the handler runs
	} else {
		c.register(c)
	}
	c.enter(renewing, now, asked.Add(c.leaseTTL/3))
	return c.ctx
}

// renewed returns the time since which the lease has lasted, or an earlier one.
func (c *execution) renewed() time.Time {
	c.guard.Lock()
	defer c.guard.Unlock()
	return c.held
}

// freeContext returns the context for a handler that holds no lease.
func (c *execution) freeContext() context.Context {
	c.guard.Lock()
	defer c.guard.Unlock()
	c.revive()
	c.phase = idle
	return c.ctx
}

// awaitRenewal waits for a renewal that has begun. No other begins in the phase of a call.
func (c *execution) awaitRenewal() {
	c.guard.Lock()
	renewal := c.renewal
	c.guard.Unlock()
	if renewal != nil {
		<-renewal
	}
}

// endCall ends the phase of a call to the store.
func (c *execution) endCall() {
	c.guard.Lock()
	defer c.guard.Unlock()
	c.phase = idle
}

// enter begins a phase. A timer that fires earlier is not set again: tick does so then. The guard is held.
func (c *execution) enter(p phase, now, due time.Time) {
	c.phase, c.due = p, due
	switch {
	case c.timer == nil:
		c.timer = time.AfterFunc(due.Sub(now), c.tick)
	case c.fires.IsZero() || due.Before(c.fires):
		c.timer.Reset(due.Sub(now))
	default:
		return
	}
	c.fires = due
}

// tick is the timer's function. It runs in its own goroutine.
func (c *execution) tick() {
	c.guard.Lock()
	now := time.Now()
	switch {
	case c.phase == idle:
		c.fires = time.Time{}
	case now.Before(c.due):
		c.fires = time.Time{}
		c.enter(c.phase, now, c.due)
	case c.phase == calling:
		c.fires = time.Time{}
		c.cancel(errStoreTimeout)
	default:
		c.fires = time.Time{}
		ctx, ended := c.ctx, make(chan struct{})
		c.renewal = ended
		c.guard.Unlock()
		c.renew(ctx, now)
		close(ended)
		return
	}
	c.guard.Unlock()
}

// renew extends the lease. It is tried again as long as the store gives no clear response. The handler is cancelled
// when the lease has ended meanwhile, because another process may have taken the key over. Requests to this process
// still find the key in flight.
func (c *execution) renew(ctx context.Context, asked time.Time) {
	call, done := context.WithTimeoutCause(ctx, c.leaseTTL/3, errStoreTimeout)
	err := c.store.Extend(call, c.lease, c.leaseTTL, nil)
	done()

	c.guard.Lock()
	defer c.guard.Unlock()
	if c.phase != renewing {
		return
	}
	now := time.Now()
	if err == nil {
		c.held = asked
		c.enter(renewing, now, now.Add(c.leaseTTL/3))
		return
	}
	if errors.Is(err, store.ErrLost) {
		c.phase = idle
		c.cancel(store.ErrLost)
		return
	}
	c.exclude()
	left := c.leaseTTL - now.Sub(c.held)
	if left <= 0 {
		c.phase = idle
		c.cancel(fmt.Errorf("%w: it ended and could not be renewed: %w", store.ErrLost, err))
		return
	}
	c.enter(renewing, now, now.Add(min(left, c.leaseTTL/10)))
}

// exclude makes this process refuse other requests with the key, even if the lease expires in the store. This ends when
// the outcome is recorded, or at stop. If the background still works on the record, it ends when that work does.
func (c *execution) exclude() { c.register(nil) }

// register adds the key to the registry of runs.
func (c *execution) register(renews *execution) {
	c.running.add(c.gate, c.claim.ID, run{c.lease.Fence, c.claim.Fingerprint, renews})
}
