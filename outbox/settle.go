package outbox

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redo-go/redo/store"
)

const (
	settleTries = 5
	settlePause = 50 * time.Millisecond
)

// post adds an event to the next settlement. The caller holds the mutex.
func (r *run) post(e ended) {
	r.pending = append(r.pending, e)
	r.unsettled++
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// settler writes settlements until done is closed. One write contains all attempts that ended during the write
// before.
func (r *run) settler(done <-chan struct{}) {
	for last := false; !last; {
		select {
		case <-r.kick:
		case <-done:
			last = true
		}
		r.mu.Lock()
		batch := r.pending
		r.pending = nil
		r.mu.Unlock()
		if len(batch) > 0 {
			r.write(batch)
		}
	}
}

// write settles a batch and reports its attempts.
func (r *run) write(batch []ended) {
	for _, e := range batch {
		if e.disable {
			r.disableDestination(e)
		}
	}
	settlements := make([]Settlement, 0, len(batch))
	for _, e := range batch {
		if !e.lost {
			settlements = append(settlements, Settlement{Lease: e.item.d.Lease, Outcome: e.outcome})
		}
	}
	lost, err := r.settle(settlements)
	if errors.Is(err, store.ErrInvalid) && len(batch) > 1 { // one invalid outcome must not fail the others
		for _, e := range batch {
			e.disable = false
			r.write([]ended{e})
		}
		return
	}
	next, now := false, time.Now()
	r.mu.Lock()
	for _, e := range batch {
		delete(r.held, e.item.d.Lease)
		next = next || e.next
	}
	r.unsettled -= len(batch)
	if next || r.more && 2*r.free() >= r.capacity() {
		r.signal() // the next event of a line may be due
	}
	r.mu.Unlock()
	for _, e := range batch {
		if e.attempt.ID == "" {
			continue
		}
		a, failure := e.attempt, err
		if e.lost || slices.Contains(lost, e.item.d.Lease) {
			failure = store.ErrLost
		}
		if failure != nil {
			a.Err, a.Code, a.Wait = errors.Join(failure, a.Err), "", 0
		} else {
			a.Result = e.outcome.Result
		}
		a.Lag = e.item.d.Age + now.Sub(e.item.claimed)
		r.report(r.base, e.item.d, a)
	}
}

// settle writes outcomes, with a few tries within QueueTimeout. It continues when the relay ends.
func (r *run) settle(ended []Settlement) (lost []Lease, err error) {
	if len(ended) == 0 {
		return nil, nil
	}
	ctx, done := context.WithTimeout(context.WithoutCancel(r.base), r.queueTimeout)
	defer done()
	unsure := false
	for try, wait := 1, settlePause; ; try, wait = try+1, 2*wait {
		start := time.Now()
		lost, err := r.queue.Settle(ctx, ended...)
		r.observeQueue(r.base, "Settle", start, len(ended), err)
		switch {
		case err == nil && unsure:
			return nil, nil // a response was lost: written, or delivered again
		case err == nil:
			return lost, nil
		case errors.Is(err, store.ErrInvalid), try == settleTries:
			return nil, err
		}
		unsure = unsure || errors.Is(err, store.ErrUnknown)
		if !r.pause(ctx, wait, false) {
			return nil, err
		}
	}
}

// disableDestination disables the destination of an attempt and notifies the operator.
func (r *run) disableDestination(e ended) {
	ctx, done := context.WithTimeout(context.WithoutCancel(r.base), r.queueTimeout)
	defer done()
	destination := e.item.d.Event.Destination
	unsure := false
	for try, wait := 1, settlePause; ; try, wait = try+1, 2*wait {
		start := time.Now()
		err := r.queue.Disable(ctx, destination, e.why)
		r.observeQueue(r.base, "Disable", start, 0, err)
		if err == nil {
			break
		}
		unsure = unsure || errors.Is(err, store.ErrUnknown)
		if try == settleTries || !r.pause(ctx, wait, false) {
			if unsure {
				break // it may be disabled, and then no failure follows
			}
			return // the next failure retries
		}
	}
	r.reportDisabled(r.base, DisabledDestination{Destination: destination, Since: time.Now(), Why: e.why})
}
