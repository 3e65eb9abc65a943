package store

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The pause between two reads of a [Poller] doubles from the first to the last.
const (
	firstPoll   = 25 * time.Millisecond
	lastPoll    = 400 * time.Millisecond
	pushedPoll  = 10 * time.Second // if the engine reports each change
	pollTimeout = 5 * time.Second  // of one read, unless the engine does
)

// Poll returns a Waiter for a store that has none. It reads the record with Find: immediately, after 25 ms, then
// after pauses that double up to 400 ms, and when the record expires. One goroutine reads a record for all its
// waiters, and ends with the last of them.
func Poll(st Store) *Poller {
	return &Poller{store: st, polls: map[ID][]*poll{}}
}

// A Poller implements [Waiter] for any Store. Make one with [Poll]. It may be used concurrently.
type Poller struct {
	store   Store
	pushed  atomic.Bool
	waiters atomic.Int64

	mu    sync.Mutex
	polls map[ID][]*poll
}

// A poll is the reading of one record for its waiters.
type poll struct {
	id      ID
	fence   uint64
	waiters int
	cancel  context.CancelFunc
	woken   chan struct{} // takes a value if the record may have changed
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
	p.waiters.Add(1)
	defer p.waiters.Add(-1)
	shared := p.join(id, fence)
	defer p.leave(shared)
	select {
	case <-shared.ended:
		return shared.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Waited reports whether any record has waiters. If it has none after a change, Wake is not needed.
func (p *Poller) Waited() bool { return p.waiters.Load() > 0 }

// Wake reads the record immediately if it has waiters. An engine calls it when it learns of a change.
func (p *Poller) Wake(id ID) {
	if !p.Waited() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wake(p.polls[id])
}

// Pushed sets whether the engine calls Wake for each change that ends a Wait. While it does, a record is read every 10
// s only, and a read has no time limit. Pushed reads all records that have waiters immediately, because changes before
// it were not pushed.
func (p *Poller) Pushed(pushed bool) {
	p.pushed.Store(pushed)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, polls := range p.polls {
		p.wake(polls)
	}
}

func (p *Poller) wake(polls []*poll) {
	for _, one := range polls {
		select {
		case one.woken <- struct{}{}:
		default: // it has a value already
		}
	}
}

func (p *Poller) join(id ID, fence uint64) *poll {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.IndexFunc(p.polls[id], func(one *poll) bool { return one.fence == fence })
	if at < 0 {
		// The poll outlives the waiter that begins it, so it has a separate context.
		ctx, cancel := context.WithCancel(context.Background())
		begun := &poll{id: id, fence: fence, cancel: cancel, woken: make(chan struct{}, 1), ended: make(chan struct{})}
		at = len(p.polls[id])
		p.polls[id] = append(p.polls[id], begun)
		go p.run(ctx, begun)
	}
	shared := p.polls[id][at]
	shared.waiters++
	return shared
}

func (p *Poller) leave(shared *poll) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if shared.waiters--; shared.waiters == 0 {
		shared.cancel()
		p.forget(shared)
	}
}

// forget makes room for a new poll of the same record. It leaves a later poll alone.
func (p *Poller) forget(shared *poll) {
	left := slices.DeleteFunc(p.polls[shared.id], func(one *poll) bool { return one == shared })
	if p.polls[shared.id] = left; len(left) == 0 {
		delete(p.polls, shared.id)
	}
}

func (p *Poller) run(ctx context.Context, shared *poll) {
	for d := firstPoll; ; d = min(2*d, lastPoll) {
		left, err := p.left(ctx, shared)
		if left == 0 || err != nil {
			shared.err = err
			break
		}
		if p.pushed.Load() {
			d = pushedPoll
		}
		select {
		case <-time.After(min(d, left)):
		case <-shared.woken:
		case <-ctx.Done():
			return // the last waiter has left
		}
	}
	p.mu.Lock()
	p.forget(shared)
	p.mu.Unlock()
	close(shared.ended)
}

// left returns how long the record lives unless its owner moves its expiry. It returns 0 if the record is not pending
// under the fence.
func (p *Poller) left(ctx context.Context, shared *poll) (time.Duration, error) {
	if !p.pushed.Load() {
		bounded, cancel := context.WithTimeout(ctx, pollTimeout)
		defer cancel()
		ctx = bounded
	}
	rec, err := p.store.Find(ctx, shared.id)
	switch {
	case errors.Is(err, ErrNotFound):
		return 0, nil
	case err != nil || !rec.PendingUnder(shared.fence):
		return 0, err
	case rec.ExpiresAt.IsZero():
		return Forever, nil
	}
	return max(rec.ExpiresAt.Sub(rec.ReadAt), time.Millisecond), nil
}
