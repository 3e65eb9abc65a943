package store

import (
	"context"
	"errors"
	"sync"
	"time"
)

// The pause between two reads of a [Poller] doubles from the first to the last.
const (
	firstPoll   = 25 * time.Millisecond
	lastPoll    = 400 * time.Millisecond
	pollTimeout = 5 * time.Second // of one read
)

// Poll returns the Waiter of a store that has none of its own. It reads the record with Find: immediately, after 25
// ms, then after pauses that double up to 400 ms. One goroutine reads a record for all its waiters, and ends with the
// last of them.
func Poll(st Store) *Poller {
	return &Poller{store: st, polls: map[Lease]*poll{}}
}

// A Poller implements [Waiter] for any Store. Make one with [Poll]. It may be used concurrently.
type Poller struct {
	store Store

	mu    sync.Mutex
	polls map[Lease]*poll
}

// A poll is the reading of one record for its waiters.
type poll struct {
	waiters int
	cancel  context.CancelFunc
	ended   chan struct{} // closed when the record is no longer pending under the fence, or a read failed
	err     error         // of the read, set before ended is closed
}

// Wait implements [Waiter]. It returns the error of a read that fails. A fence of zero means a record in an open
// transaction, which no read shows. Wait then returns nil immediately, and the caller paces its own claims.
func (p *Poller) Wait(ctx context.Context, id ID, fence uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if fence == 0 {
		return nil
	}
	l := Lease{ID: id, Fence: fence}
	shared := p.join(l)
	defer p.leave(l, shared)
	select {
	case <-shared.ended:
		return shared.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *Poller) join(l Lease) *poll {
	p.mu.Lock()
	defer p.mu.Unlock()
	shared, ok := p.polls[l]
	if !ok {
		// The poll outlives the waiter that begins it, so it has a context of its own.
		ctx, cancel := context.WithCancel(context.Background())
		shared = &poll{cancel: cancel, ended: make(chan struct{})}
		p.polls[l] = shared
		go p.run(ctx, l, shared)
	}
	shared.waiters++
	return shared
}

func (p *Poller) leave(l Lease, shared *poll) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if shared.waiters--; shared.waiters == 0 {
		shared.cancel()
		p.forget(l, shared)
	}
}

// forget makes room for a new poll of the same record. It leaves a later poll alone.
func (p *Poller) forget(l Lease, shared *poll) {
	if p.polls[l] == shared {
		delete(p.polls, l)
	}
}

func (p *Poller) run(ctx context.Context, l Lease, shared *poll) {
	for d := firstPoll; ; d = min(2*d, lastPoll) {
		pending, err := p.pending(ctx, l)
		if !pending {
			shared.err = err
			break
		}
		if pause(ctx, d) != nil {
			return // the last waiter has left
		}
	}
	p.mu.Lock()
	p.forget(l, shared)
	p.mu.Unlock()
	close(shared.ended)
}

// pending reports whether the record is still pending under the lease.
func (p *Poller) pending(ctx context.Context, l Lease) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	rec, err := p.store.Find(ctx, l.ID)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil && rec.State == StatePending && rec.Fence == l.Fence, err
}

// pause waits for d, or returns the context's error if that ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
