package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/redo-go/redo/store"
)

const (
	firstPoll = 5 * time.Millisecond
	lookLimit = 30 * time.Second // for one look; the waiters' own contexts may end their waits before
)

// Wait implements [store.Waiter] by looking again and again: soon at first, then with pauses that double up to
// [WithPollInterval], a quarter more or less. However many wait for a record through this Store, one goroutine looks. It
// returns nil on complete, release, take-over and expiry; the end of a lease alone does not end it. Its error is the
// context's, or wraps store.ErrUnavailable when the database can't be asked or the store is closed.
func (s *records) Wait(ctx context.Context, id store.ID, fence uint64) error {
	if err := id.Validate(); err != nil {
		return err
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	p, err := s.polls.join(s, id, fence)
	if err != nil {
		return err
	}
	defer s.polls.leave(p)
	select {
	case <-p.over:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A watched record is an ID under a fence.
type watched struct {
	id    store.ID
	fence uint64
}

// polls holds the records that are watched, each by one goroutine for all who wait for it.
type polls struct {
	mu      sync.Mutex
	running sync.WaitGroup
	ended   bool
	by      map[watched]*poll
}

// A poll is one record's.
type poll struct {
	of      watched
	waiters int             // under the mutex
	joined  chan struct{}   // has room for one: somebody came, who is to be told at once
	wanted  context.Context // ends when nobody waits any more
	left    context.CancelFunc
	over    chan struct{} // closed when there is nothing more to wait for, after err is set
	err     error
}

// join begins to watch a record, or joins those who do. A poll that is over is joined by nobody: it takes itself
// out of the map first.
func (ps *polls) join(s *records, id store.ID, fence uint64) (*poll, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.ended {
		return nil, errClosed
	}
	of := watched{id, fence}
	p := ps.by[of]
	if p == nil {
		p = &poll{of: of, joined: make(chan struct{}, 1), over: make(chan struct{})}
		p.wanted, p.left = context.WithCancel(context.Background())
		if ps.by == nil {
			ps.by = make(map[watched]*poll)
		}
		ps.by[of] = p
		ps.running.Go(func() {
			err := s.watch(p)
			ps.mu.Lock()
			ps.drop(p)
			ps.mu.Unlock()
			p.err = err
			close(p.over)
		})
	}
	p.waiters++
	select {
	case p.joined <- struct{}{}:
	default:
	}
	return p, nil
}

func (ps *polls) leave(p *poll) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p.waiters--; p.waiters == 0 {
		ps.drop(p)
		p.left()
	}
}

func (ps *polls) drop(p *poll) {
	if ps.by[p.of] == p {
		delete(ps.by, p.of)
	}
}

// wait lets nobody join any more and returns when no goroutine is left. The store is closed before.
func (ps *polls) wait() {
	ps.mu.Lock()
	ps.ended = true
	ps.mu.Unlock()
	ps.running.Wait()
}

// watch returns nil when the record is not pending under the fence, or nobody waits any more.
func (s *records) watch(p *poll) error {
	pause := min(firstPoll, s.poll)
	for {
		// Who joins after this is not told what is read now, but looked for again.
		select {
		case <-p.joined:
		default:
		}
		left, err := s.look(p)
		if err != nil || left == 0 {
			return err
		}
		t := time.NewTimer(min(jitter(pause, rand.Float64()), left))
		select {
		case <-t.C:
			pause = min(2*pause, s.poll)
		case <-p.joined:
			pause = min(firstPoll, s.poll)
		case <-p.wanted.Done():
			t.Stop()
			return nil
		case <-s.life.Done():
			t.Stop()
			return errClosed
		}
		t.Stop()
	}
}

// look returns how long the record is pending under the fence if nothing changes it, zero when it is not. When nobody waits
// any more it no longer asks the pool for a connection. A statement that is under way is not cut off by that: it would take
// its connection with it.
func (s *records) look(p *poll) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(s.life, lookLimit)
	defer cancel()
	asking, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(p.wanted, stop)()
	of := p.of
	var pending bool
	var fence int64
	var expiresAt, readAt pgtype.Timestamptz
	err := s.run(asking, false, func(on session) error {
		err := on.queryRow(ctx, s.sql.watch, []byte(of.id.Scope), []byte(of.id.Key)).Scan(&pending, &fence, &expiresAt, &readAt)
		if errors.Is(err, sql.ErrNoRows) {
			return store.ErrNotFound
		}
		return err
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return 0, nil
	case s.life.Err() != nil:
		return 0, errClosed
	case errors.Is(err, context.DeadlineExceeded):
		return 0, errStalled
	case err != nil:
		return 0, err
	case !pending || uint64(fence) != of.fence || expired(expiresAt, readAt):
		return 0, nil
	case !expiresAt.Valid:
		return store.Forever, nil
	}
	return expiresAt.Time.Sub(readAt.Time), nil
}

// jitter spreads d by a quarter to both sides; r is in [0, 1).
func jitter(d time.Duration, r float64) time.Duration {
	return time.Duration(float64(d) * (0.75 + r/2))
}
