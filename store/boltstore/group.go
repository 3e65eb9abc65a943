package boltstore

import (
	"context"
	"time"

	"github.com/redo-go/redo/internal/envelope"
)

// A group is the content of one commit.
type group struct {
	rows    []*row
	changes uint64
	purge   int            // expired records that Purges want deleted
	due     bool           // commit it now
	lazy    bool           // a lazy change joined, and the timer runs
	state   envelope.State // that the commit writes
	now     int64          // of the commit
	done    chan struct{}  // closed when the commit has ended
	// Set before done is closed.
	err     error // for its durable members, if the commit failed
	purged  int   // expired records that were deleted and that no Purge has counted
	skipped error // the first expired record that can't be deleted
	more    bool  // the index of expiries was not read to the last expired record
}

func newGroup(rows ...*row) *group { return &group{rows: rows, done: make(chan struct{})} }

// fenceBlock is the number of fences that a commit reserves beyond the last one given out.
//
// Reserve returns a fence when it is on disk, in the commit of its record. Begin returns one immediately, and a
// rollback commits nothing. If the next Open gave that fence out again, another owner's record could confirm a commit
// whose response was lost. So Begin returns only fences that the file has reserved, and Open continues after all of
// them. Every commit writes the state anyway. The cost is one commit for each fenceBlock consecutive Begins that are
// rolled back, and one before the first Begin after Open, unless another change came before it.
const fenceBlock = 1 << 10

// stamped sets the state that the commit of a sealed group writes, and its time. The mutex is held.
func (s *Store) stamped(g *group) *group {
	g.state, g.now = envelope.State{Fence: s.fence + fenceBlock, Epoch: s.epoch}, s.clock.Now()
	return g
}

// wait returns when the group's commit has ended, or the context's error if that ends first.
func wait(ctx context.Context, g *group) error {
	select {
	case <-g.done:
		return nil
	default:
	}
	select {
	case <-g.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// overdue is the timer's function: the lazy changes of the current group are due.
func (s *Store) overdue() {
	s.mu.Lock()
	s.current.due = s.current.due || s.current.lazy
	s.mu.Unlock()
	s.signal()
}

// retryDelay returns the lazy delay, doubled up to a second for each of the commits that failed in a row.
func (s *Store) retryDelay() time.Duration {
	d := s.delay
	for range min(s.failures, 10) {
		d = min(max(2*d, time.Millisecond), max(time.Second, s.delay))
	}
	return d
}

// signal wakes the writer.
func (s *Store) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// settle ends a group after its commit. If that failed, lazy changes that were returned go into the current group. The
// mutex is held.
func (s *Store) settle(g *group, err error) {
	s.gen++
	g.err = err
	for _, r := range g.rows {
		delete(s.overlay, r.key)
		if err != nil && r.lazy != nil {
			s.put(r.key, r.lazy, true)
		} else {
			s.notify(r.key)
		}
	}
	close(g.done)
}
