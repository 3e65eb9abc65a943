package outbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// deliver makes one attempt and settles it. claimed is the context of Run: when it has ended the attempt is not begun.
func (r *run) deliver(claimed context.Context, d Delivery) {
	a := Attempt{
		ID: d.Event.ID, Type: d.Event.Type, Destination: d.Event.Destination, OrderingKey: d.Event.OrderingKey, Number: d.Attempt,
	}
	start := time.Now()
	var o Outcome
	switch {
	case claimed.Err() != nil:
		o = Outcome{Result: Released}
	case d.Attempt > r.retry.MaxAttempts:
		a.Number-- // this one is not made
		o = Outcome{Result: Dead, Failure: unfinished}
	case d.Attempt > 1 && d.Tried > r.retry.MaxElapsed:
		a.Number--
		o = Outcome{Result: Dead, Failure: overdue}
	default:
		o, a.Err = r.attempt(d)
	}
	a.Elapsed = time.Since(start)
	if err := r.settle(d.Lease, o); err != nil {
		a.Err = errors.Join(err, a.Err)
	} else {
		a.Result, a.Code, a.Wait = o.Result, o.Failure.Code, o.Wait
	}
	a.Lag = d.Age + time.Since(start)
	r.report(r.base, d, a)
}

// attempt publishes the event and says what becomes of it.
func (r *run) attempt(d Delivery) (Outcome, error) {
	cancellable, cancel := context.WithCancelCause(r.base)
	defer cancel(nil)
	ctx, done := context.WithTimeout(cancellable, r.retry.AttemptTimeout)
	defer done()
	start := time.Now()
	published := make(chan error, 1)
	go func() {
		err := errVanished
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("outbox: the publisher panicked: %v", p)
			}
			published <- err
		}()
		err = r.publisher.Publish(ctx, d.Event)
	}()
	err := r.keep(d.Lease, published, cancel)
	if cut(err) && errors.Is(context.Cause(ctx), errDrained) {
		return Outcome{Result: Released}, err
	}
	return decide(attempted{
		policy: r.retry, number: d.Attempt, tried: d.Tried + time.Since(start), hint: hintOf(err, time.Now()),
		random: rand.Float64(), err: err,
	}), err
}

// errVanished: the publisher ended its goroutine.
var errVanished = errors.New("outbox: the publisher did not return")

// cut reports whether a publisher's error says no more than that its context has ended.
func cut(err error) bool {
	if e, ok := errors.AsType[*redo.Error](err); ok {
		return e.Code.In(taxonomy.Caller)
	}
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// keep renews the lease until the publisher has ended, and cancels it when the lease is lost.
func (r *run) keep(l Lease, published <-chan error, cancel context.CancelCauseFunc) error {
	beat := time.NewTicker(max(r.lease/3, time.Microsecond))
	defer beat.Stop()
	for renewed := time.Now(); ; {
		select {
		case err := <-published:
			return err
		case <-beat.C:
		}
		start := time.Now()
		ctx, done := context.WithTimeout(r.base, min(r.queueTimeout, r.lease/3))
		err := r.queue.Extend(ctx, l, r.lease)
		done()
		r.observeQueue(r.base, "Extend", start, 0, err)
		switch {
		case err == nil:
			renewed = start
		case errors.Is(err, store.ErrLost), time.Since(renewed) >= r.lease:
			cancel(store.ErrLost)
			return <-published
		}
	}
}

const (
	settleTries = 5
	settlePause = 50 * time.Millisecond
)

// settle writes the outcome, with a few tries within QueueTimeout. It is not given up when the relay ends.
func (r *run) settle(l Lease, o Outcome) error {
	ctx, done := context.WithTimeout(context.WithoutCancel(r.base), r.queueTimeout)
	defer done()
	unsure := false
	for try, wait := 1, settlePause; ; try, wait = try+1, 2*wait {
		start := time.Now()
		err := r.queue.Settle(ctx, l, o)
		r.observeQueue(r.base, "Settle", start, 0, err)
		switch {
		case err == nil:
			return nil
		case unsure && errors.Is(err, store.ErrLost):
			return nil // an answer was lost, and the write it was for was made; or the event comes again under its own id
		case errors.Is(err, store.ErrLost), errors.Is(err, store.ErrInvalid), try == settleTries:
			return err
		}
		unsure = unsure || errors.Is(err, store.ErrUnknown)
		if !r.rest(ctx, wait, false) {
			return err
		}
	}
}
