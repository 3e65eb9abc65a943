package outbox

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redo-go/redo/internal/chance"
	"github.com/redo-go/redo/internal/null"
)

// Relay delivers the events of a queue through a publisher. Create one with [NewRelay]. Any number may run on one
// queue.
type Relay struct {
	config
	queue     Queue
	publisher Publisher

	mu   sync.Mutex
	runs map[*run]struct{}
}

// NewRelay returns a relay, which does nothing until Run is called. The error names each wrong option.
func NewRelay(q Queue, p Publisher, opts ...Option) (*Relay, error) {
	if null.Is(q) {
		return nil, errors.New("outbox: the queue is nil")
	}
	if null.Is(p) {
		return nil, errors.New("outbox: the publisher is nil")
	}
	c, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	return &Relay{config: c, queue: q, publisher: p, runs: map[*run]struct{}{}}, nil
}

// Run delivers events until ctx ends. It then waits for deliveries in flight, as [Drain] describes. A publisher
// that does not return when its context ends keeps Run waiting. Run returns nil. An unreachable queue does not end
// Run: the relay retries, and reports the error to the observer and the logger.
//
// The contexts of deliveries have ctx's values but do not end with it.
func (r *Relay) Run(ctx context.Context) error {
	base, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	n := newRun(r, ctx, base)
	r.mu.Lock()
	r.runs[n] = struct{}{}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.runs, n)
	}()
	var beside, settler, beat sync.WaitGroup
	if w, ok := r.queue.(Watcher); ok {
		beside.Go(func() { n.watch(ctx, w) })
	}
	if b, ok := r.queue.(Backlog); ok && r.purges() {
		beside.Go(func() { n.purge(ctx, b) })
	}
	settled, beaten := make(chan struct{}), make(chan struct{})
	settler.Go(func() { n.settler(settled) })
	beat.Go(func() { n.beat(beaten) })
	n.relay(ctx)
	n.releaseAll()
	beside.Wait()
	late := time.AfterFunc(r.drain, func() { cancel(errDrained) })
	n.deliveries.Wait()
	late.Stop()
	close(settled)
	settler.Wait()
	close(beaten)
	beat.Wait()
	return nil
}

// Enable enables a disabled destination again. The relay forgets its failures so far.
func (r *Relay) Enable(ctx context.Context, destination string) error {
	if err := r.queue.Enable(ctx, destination); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for n := range r.runs {
		n.enabled(destination)
	}
	return nil
}

// errDrained is the cancellation cause of deliveries that did not end in time.
var errDrained = errors.New("outbox: the relay is ending")

// run is one call of Run.
type run struct {
	*Relay
	ctx        context.Context // Run's: after its end nothing is started
	base       context.Context // of the deliveries
	started    time.Time
	wake       chan struct{} // has room for one: there may be something to claim
	kick       chan struct{} // has room for one: there is something to settle
	deliveries sync.WaitGroup

	mu        sync.Mutex
	lanes     map[string]*lane
	past      map[string]time.Time // the last successes of lanes that were forgotten
	pruned    time.Time            // past
	ready     []*lane              // lanes whose next chain waits for a worker
	held      map[Lease]*item
	pending   []ended // to be settled
	busy      int     // workers
	slow      int     // chains that have left their workers
	buffered  int     // events of all lanes that are not started
	unsettled int     // events that have ended and are not settled
	size      int     // of an event's payload, as the last claims show it
	more      bool    // the last claim was full
	ending    bool
}

func newRun(r *Relay, ctx, base context.Context) *run {
	return &run{
		Relay: r, ctx: ctx, base: base, started: time.Now(), wake: make(chan struct{}, 1), kick: make(chan struct{}, 1),
		lanes: map[string]*lane{}, past: map[string]time.Time{}, held: map[Lease]*item{}, size: MaxPayload,
	}
}

const (
	purgeEvery = time.Minute
	purgeBatch = 1000
	longest    = 30 * time.Second // the maximum pause while the queue fails
)

// relay claims events until ctx ends.
func (r *run) relay(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		again := false
		if c, ok := r.ask(); ok {
			var err error
			if again, err = r.claim(ctx, c); err != nil {
				failures++
			} else {
				failures = 0
			}
		}
		if !again {
			r.pause(ctx, pause(r.poll, failures, chance.Float64()), failures == 0)
		}
	}
}

// claim claims events and starts their deliveries. It reports whether another claim is worth its round trip. A
// claim that was started is always completed, and released if ctx ends meanwhile.
func (r *run) claim(ctx context.Context, c Claim) (again bool, err error) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.queueTimeout)
	defer cancel()
	start := time.Now()
	ds, err := r.queue.Claim(bounded, c)
	r.observeQueue(ctx, "Claim", start, len(ds), err)
	if err != nil {
		return false, err
	}
	return r.buffer(c, ds, start), nil
}

// pause returns true after d. If wakes is set, a wake-up ends the pause early. It returns false if ctx has ended.
func (r *run) pause(ctx context.Context, d time.Duration, wakes bool) bool {
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

// watch makes the queue wake the relay.
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
		if !r.pause(ctx, pause(r.poll, failures, chance.Float64()), false) {
			return
		}
	}
}

// purge periodically deletes sent events that were enqueued longer ago than the retention.
func (r *run) purge(ctx context.Context, b Backlog) {
	for r.pause(ctx, pause(purgeEvery, 0, chance.Float64()), false) {
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

// pause returns d, a quarter more or less. It doubles with each failure in a row up to longest. r is in [0, 1).
func pause(d time.Duration, failures int, r float64) time.Duration {
	for range min(failures, 16) {
		d = min(2*d, max(d, longest))
	}
	return time.Duration(float64(d) * (0.75 + r/2))
}
