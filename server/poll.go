package server

import (
	"context"
	"sync"
	"time"

	"github.com/redo-go/redo/store"
)

// How often a poller looks: the pause doubles from the first to the last.
const (
	firstPoll = 25 * time.Millisecond
	lastPoll  = 400 * time.Millisecond
)

// A poller is the store.Waiter of a store that has none. However many requests wait for a record, one goroutine looks
// at it, as long as anyone waits.
type poller struct {
	store   store.Store
	timeout time.Duration // of one look

	mu    sync.Mutex
	polls map[pollKey]*poll
}

type pollKey struct {
	id    store.ID
	fence uint64
}

type poll struct {
	waiters int
	settled chan struct{} // closed when there may be something new
	cancel  context.CancelFunc
}

func newPoller(st store.Store, timeout time.Duration) *poller {
	return &poller{store: st, timeout: timeout, polls: map[pollKey]*poll{}}
}

// Wait implements store.Waiter.
func (p *poller) Wait(ctx context.Context, id store.ID, fence uint64) error {
	if fence == 0 {
		return nil // of an open transaction, whose record nobody can look at
	}
	key := pollKey{id, fence}
	shared := p.join(key)
	defer p.leave(key, shared)
	select {
	case <-shared.settled:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *poller) join(key pollKey) *poll {
	p.mu.Lock()
	defer p.mu.Unlock()
	shared, ok := p.polls[key]
	if !ok {
		// No waiter's own context: the poll outlives the one that began it.
		ctx, cancel := context.WithCancel(context.Background())
		shared = &poll{settled: make(chan struct{}), cancel: cancel}
		p.polls[key] = shared
		go p.run(ctx, key, shared)
	}
	shared.waiters++
	return shared
}

func (p *poller) leave(key pollKey, shared *poll) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if shared.waiters--; shared.waiters == 0 {
		shared.cancel()
		p.forget(key, shared)
	}
}

// forget makes room for a new poll of the same record; a later one that already stands is left alone.
func (p *poller) forget(key pollKey, shared *poll) {
	if p.polls[key] == shared {
		delete(p.polls, key)
	}
}

func (p *poller) run(ctx context.Context, key pollKey, shared *poll) {
	for pause := firstPoll; sleep(ctx, pause); pause = min(2*pause, lastPoll) {
		if p.pending(ctx, key) {
			continue
		}
		p.mu.Lock()
		p.forget(key, shared)
		p.mu.Unlock()
		close(shared.settled)
		return
	}
}

// pending reports whether the record still stands as it did. An error is something new: whoever reserves next gets it
// too.
func (p *poller) pending(ctx context.Context, key pollKey) bool {
	visit, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	rec, err := p.store.Find(visit, key.id)
	return err == nil && rec.State == store.StatePending && rec.Fence == key.fence && rec.LeaseLeft() > 0
}
