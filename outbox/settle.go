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

// settle writes outcomes. It continues when the relay ends.
func (r *run) settle(ended []Settlement) (lost []Lease, err error) {
	if len(ended) == 0 {
		return nil, nil
	}
	unsure, err := r.persist("Settle", len(ended), func(ctx context.Context) (err error) {
		lost, err = r.queue.Settle(ctx, ended...)
		return err
	})
	if err != nil || unsure { // a response was lost: written, or delivered again
		return nil, err
	}
	return lost, nil
}

// disableDestination disables the destination of an attempt and notifies the operator.
func (r *run) disableDestination(e ended) {
	destination := e.item.d.Event.Destination
	unsure, err := r.persist("Disable", 0, func(ctx context.Context) error {
		return r.queue.Disable(ctx, destination, e.why)
	})
	if err != nil && !unsure { // if it may be disabled, no failure follows
		return // the next failure retries
	}
	r.reportDisabled(r.base, DisabledDestination{Destination: destination, Since: time.Now(), Why: e.why})
}

// persist makes a write, with a few tries within QueueTimeout, also when the relay ends. unsure means that a try may
// have taken effect although it failed.
func (r *run) persist(method string, count int, write func(context.Context) error) (unsure bool, err error) {
	ctx, done := context.WithTimeout(context.WithoutCancel(r.base), r.queueTimeout)
	defer done()
	for try, wait := 1, settlePause; ; try, wait = try+1, 2*wait {
		start := time.Now()
		err = write(ctx)
		r.observeQueue(r.base, method, start, count, err)
		unsure = unsure || errors.Is(err, store.ErrUnknown)
		if err == nil || errors.Is(err, store.ErrInvalid) || try == settleTries || !r.pause(ctx, wait, false) {
			return unsure, err
		}
	}
}
