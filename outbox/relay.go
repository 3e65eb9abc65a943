package outbox

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// A Relay delivers what a queue holds through a publisher. Create one with [NewRelay]. Any number may run on one queue.
type Relay struct {
	config
	queue     Queue
	publisher Publisher
}

// NewRelay returns a relay, which does nothing until Run is called. The error names each option that is wrong.
func NewRelay(q Queue, p Publisher, opts ...Option) (*Relay, error) {
	if q == nil {
		return nil, errors.New("outbox: the queue is nil")
	}
	if p == nil {
		return nil, errors.New("outbox: the publisher is nil")
	}
	c, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	return &Relay{config: c, queue: q, publisher: p}, nil
}

// Run delivers events until ctx ends, and then waits for the deliveries that are under way, as [Drain] says; a publisher
// that does not keep to its context keeps Run waiting. It returns nil. A queue that can't be reached does not end it: the
// relay tries again and tells the observer and the logger.
//
// Deliveries run on contexts that have ctx's values and not its end.
func (r *Relay) Run(ctx context.Context) error {
	n := &run{Relay: r, slots: make(chan struct{}, r.workers), wake: make(chan struct{}, 1)}
	for range r.workers {
		n.slots <- struct{}{}
	}
	base, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	n.base = base
	var beside sync.WaitGroup
	if w, ok := r.queue.(Watcher); ok {
		beside.Go(func() { n.watch(ctx, w) })
	}
	if b, ok := r.queue.(Backlog); ok && r.purges() {
		beside.Go(func() { n.purge(ctx, b) })
	}
	n.relay(ctx)
	beside.Wait()
	late := time.AfterFunc(r.drain, func() { cancel(errDrained) })
	n.deliveries.Wait()
	late.Stop()
	return nil
}

// errDrained is the cause with which deliveries are cancelled that did not end in time.
var errDrained = errors.New("outbox: the relay is ending")

// A run is one call of Run.
type run struct {
	*Relay
	base       context.Context // of the deliveries
	slots      chan struct{}   // a token for each idle worker
	wake       chan struct{}   // has room for one: there may be something to claim
	deliveries sync.WaitGroup
}

const (
	linger     = 2 * time.Millisecond // for more workers to become idle, so that one claim serves several
	purgeEvery = time.Minute
	purgeBatch = 1000
	longest    = 30 * time.Second // pause while the queue does not answer
)

// relay claims and starts deliveries until ctx ends.
func (r *run) relay(ctx context.Context) {
	failures := 0
	for {
		idle := r.idle(ctx)
		if idle == 0 {
			return
		}
		claimed, err := r.claim(ctx, idle)
		for range idle - claimed {
			r.slots <- struct{}{}
		}
		switch {
		case err != nil:
			failures++
		case claimed == idle: // there may be more
			failures = 0
			continue
		default:
			failures = 0
		}
		if !r.rest(ctx, pause(r.poll, failures, rand.Float64()), failures == 0) {
			return
		}
	}
}

// idle takes the tokens of idle workers and returns how many, once there is one; zero when ctx has ended. When few are
// idle it waits a moment for more.
func (r *run) idle(ctx context.Context) int {
	select {
	case <-r.slots:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return 0
	}
	var over <-chan time.Time
	for n := 1; ; n++ {
		if n == r.workers {
			return n
		}
		select {
		case <-r.slots:
			continue
		default:
		}
		if 4*n >= r.workers {
			return n
		}
		if over == nil {
			t := time.NewTimer(linger)
			defer t.Stop()
			over = t.C
		}
		select {
		case <-r.slots:
		case <-over:
			return n
		case <-ctx.Done():
			return 0
		}
	}
}

// claim claims up to n events and starts their deliveries. A claim that was begun is brought to its end, and given back
// where ctx ends meanwhile.
func (r *run) claim(ctx context.Context, n int) (int, error) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.queueTimeout)
	defer cancel()
	start := time.Now()
	ds, err := r.queue.Claim(bounded, Claim{Max: n, Lease: r.lease, HoldKeys: r.hold})
	r.observeQueue(ctx, "Claim", start, len(ds), err)
	if err != nil {
		return 0, err
	}
	for _, d := range ds {
		r.deliveries.Go(func() {
			defer func() {
				r.slots <- struct{}{}
				if d.Event.OrderingKey != "" {
					r.signal() // the next of its key may be due
				}
			}()
			r.deliver(ctx, d)
		})
	}
	return len(ds), nil
}

// rest returns true after d, or before when something wakes it, and false when ctx has ended.
func (r *run) rest(ctx context.Context, d time.Duration, wakes bool) bool {
	wake := r.wake
	if !wakes {
		wake = nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-wake:
	case <-t.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

func (r *run) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// watch has the queue wake the relay.
func (r *run) watch(ctx context.Context, w Watcher) {
	for failures := 1; ; failures++ {
		start := time.Now()
		err := w.Watch(ctx, r.signal)
		if ctx.Err() != nil {
			return
		}
		r.observeQueue(ctx, "Watch", start, 0, err)
		if time.Since(start) > longest {
			failures = 1
		}
		if !r.rest(ctx, pause(r.poll, failures, rand.Float64()), false) {
			return
		}
	}
}

// purge deletes what was sent long ago, now and then.
func (r *run) purge(ctx context.Context, b Backlog) {
	for r.rest(ctx, pause(purgeEvery, 0, rand.Float64()), false) {
		for more := true; more && ctx.Err() == nil; {
			bounded, cancel := context.WithTimeout(ctx, r.queueTimeout)
			start := time.Now()
			n, err := b.Purge(bounded, r.retention, purgeBatch)
			cancel()
			if ctx.Err() != nil {
				return
			}
			r.observeQueue(ctx, "Purge", start, n, err)
			more = err == nil && n == purgeBatch
		}
	}
}

// pause is d, a quarter more or less, doubled with each failure in a row up to longest; r is in [0, 1).
func pause(d time.Duration, failures int, r float64) time.Duration {
	for range min(failures, 16) {
		d = min(2*d, max(d, longest))
	}
	return time.Duration(float64(d) * (0.75 + r/2))
}
