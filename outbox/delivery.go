package outbox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// ended is an attempt to be settled, or an event that returns to the queue.
type ended struct {
	item    *item
	outcome Outcome
	attempt Attempt // its ID is empty for an event that returns to the queue
	next    bool    // its settlement lets another event of its line be claimed
	disable bool    // disable the destination
	lost    bool    // cut by the loss of its lease: nothing is settled
	why     Failure
}

// deliver delivers the events of a chain, one after the other.
func (r *run) deliver(ch *chain) {
	for it := r.next(ch); it != nil; it = r.next(ch) {
		e, v := r.attempt(it)
		r.after(ch, e, v)
	}
	r.end(ch)
}

// next returns the next event of the chain. It returns nil if none is to be delivered.
func (r *run) next(ch *chain) *item {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if r.ctx.Err() != nil || len(ch.items) > 0 && r.over(ch.items[0], now) {
		r.drop(ch)
	}
	if len(ch.items) == 0 {
		return nil
	}
	it := ch.items[0]
	ch.items = ch.items[1:]
	r.unbuffer(ch.lane)
	ch.begun = now
	r.refill(ch.lane, ch.begun)
	if ch.timer == nil {
		ch.timer = time.AfterFunc(slowAfter, func() { r.late(ch) })
	} else {
		ch.timer.Reset(slowAfter)
	}
	return it
}

// attempt makes one attempt.
func (r *run) attempt(it *item) (ended, verdict) {
	ev := it.d.Event
	e := ended{item: it, attempt: Attempt{
		ID: ev.ID, Type: ev.Type, Destination: ev.Destination, OrderingKey: ev.OrderingKey, Number: it.d.Attempt,
	}}
	if it.d.Attempt > len(r.waits)+1 {
		e.attempt.Number-- // this attempt is not made
		e.outcome, e.attempt.Code = Outcome{Result: Dead, Failure: unfinished}, unfinished.Code
		return e, rejected
	}
	start := time.Now()
	err := r.publish(it)
	e.attempt.Elapsed, e.attempt.Err = time.Since(start), err
	if cut(err) && r.base.Err() != nil {
		e.outcome = Outcome{Result: Released}
		return e, rejected
	}
	var v verdict
	e.outcome, v, e.why = decide(attempted{
		waits: r.waits, number: it.d.Attempt, hint: hintOf(err, time.Now(), r.hintCap), random: r.random(),
		elapsed: e.attempt.Elapsed, err: err,
	})
	if e.lost = v == failed && cut(err) && r.hasLost(it); e.lost {
		e.outcome = Outcome{}
		return e, v
	}
	e.attempt.Code, e.attempt.Wait = e.why.Code, e.outcome.Wait
	return e, v
}

// publish calls the publisher. It cancels the call at the timeout and when the lease is lost.
func (r *run) publish(it *item) error {
	timed, done := context.WithTimeout(r.base, r.attemptTimeout)
	defer done()
	ctx, cancel := context.WithCancelCause(timed)
	r.mu.Lock()
	if it.cancel = cancel; it.lost {
		cancel(store.ErrLost)
	}
	r.mu.Unlock()
	published := make(chan error, 1)
	go func() {
		err := errVanished
		defer func() {
			if p := recover(); p != nil {
				err = &panicError{p, debug.Stack()}
			}
			published <- err
		}()
		err = r.publisher.Publish(ctx, it.d.Event)
	}()
	return <-published
}

func (r *run) hasLost(it *item) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return it.lost
}

// panicError is the panic of a publisher. The logger shows the stack.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string {
	return fmt.Sprintf("outbox: the publisher panicked: %v", e.value)
}

// errVanished reports a publisher that ended its goroutine.
var errVanished = errors.New("outbox: the publisher did not return")

// cut reports whether the end of its context is the only cause of a publisher's error.
func cut(err error) bool {
	if e, ok := errors.AsType[*redo.Error](err); ok {
		return e.Code.In(taxonomy.Caller)
	}
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// after records how an attempt ended. If the line may not continue, after settles its other events together with
// this one.
func (r *run) after(ch *chain, e ended, v verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, l := time.Now(), ch.lane
	e.item.cancel = nil
	l.blocked, l.idle = now, now
	rests := false
	switch {
	case v == delivered:
		l.succeed(now, r.perDestination)
	case e.item.lost:
	case e.attempt.Err != nil && e.outcome.Result != Released || v == notSent || v == gone:
		first := e.item.claimed.Add(-e.item.d.Tried)
		rests = l.fail(now, v, r.restOf(e, v), r.breaker)
		e.disable = r.hopeless(l, v, e.outcome, first, now)
	}
	if e.disable {
		l.reset()
		l.window, l.disabled = 1, true
		l.rest(now, longestRest)
		rests = true
	}
	e.next = e.item.d.Event.OrderingKey != "" && (len(ch.items) == 0 || e.outcome.Result == Dead)
	r.post(e)
	if e.outcome.Result != Sent { // a dead letter comes again if it can't be written
		r.drop(ch)
	}
	if rests {
		r.release(l)
		time.AfterFunc(l.until.Sub(now), r.signal)
	}
}

// restOf returns the minimum time that the destination must rest. It is set after a 429, and when the client
// itself requests a wait.
func (r *run) restOf(e ended, v verdict) time.Duration {
	if e.why.Status != http.StatusTooManyRequests && v != notSent {
		return 0
	}
	return hintOf(e.attempt.Err, time.Now(), r.hintCap)
}

// hopeless reports whether the destination must be disabled. It must if the destination is gone, or if nothing was
// delivered to it for the length of a whole schedule. The parameter first is the claim time of the event's first
// attempt. The relay does not know the deliveries of other relays, so it needs as many failures in a row as a schedule
// has attempts. A run that is younger than the event needs as many as the breaker. Without retries the schedule has no
// length.
func (r *run) hopeless(l *lane, v verdict, o Outcome, first, now time.Time) bool {
	switch {
	case l.disabled:
		return false
	case v == gone:
		return true
	case v == rejected || !l.delivered.Before(first) || len(r.waits) == 0:
		return false
	case o.Result == Dead && r.started.After(first):
		return l.misses >= max(r.breaker, 1)
	case l.misses <= len(r.waits):
		return false
	}
	return o.Result == Dead || now.Sub(l.failing) > span(r.waits)
}

// end gives the chain's worker to the next chain.
func (r *run) end(ch *chain) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ch.timer != nil {
		ch.timer.Stop()
		ch.timer = nil
	}
	if ch.slow {
		r.slow--
	} else {
		r.busy--
	}
	now, l := time.Now(), ch.lane
	l.running--
	if r.ending {
		return
	}
	r.enlist(l, now)
	r.dispatch(now)
	r.refill(l, now)
}
