package boltstore

import (
	"context"
	"time"
)

// A group is the content of one commit.
type group struct {
	rows    []*row
	changes uint64
	purge   int           // expired records that Purges want deleted
	due     bool          // commit it now
	lazy    bool          // a lazy change joined, and the timer runs
	done    chan struct{} // closed when the group is settled
	// Set before done is closed, under the mutex.
	settled   bool
	discarded bool  // it was never tried: decide again
	err       error // for its durable members, if the commit failed
	purged    int   // expired records that were deleted and that no Purge has counted
	skipped   error // the first expired record that can't be deleted
}

func newGroup() *group { return &group{done: make(chan struct{})} }

// wait returns when the group is settled, or the context's error if that ends first.
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

// succeed settles a committed group. The mutex is held.
func (s *Store) succeed(g *group, d *draft) {
	s.gen++
	g.settled, g.purged, g.skipped = true, d.purged, d.skipped
	for _, r := range g.rows {
		if r.lazyIn == g {
			r.lazy, r.lazyIn = nil, nil
		}
		if r.in == g {
			delete(s.overlay, r.key)
		}
		s.notify(r.key)
	}
	close(g.done)
}

// fail settles a group whose commit failed, and discards later decisions. The mutex is held.
func (s *Store) fail(g *group, err error) {
	s.gen++
	g.settled, g.err = true, err
	s.discard()
	close(g.done)
}

// discard has the changes of the current group decided again, except lazy outcomes that were returned. The mutex is
// held.
func (s *Store) discard() {
	later := s.current
	later.settled, later.discarded = true, true
	rows := s.overlay
	s.overlay, s.current = make(map[string]*row), newGroup()
	for _, r := range rows {
		if r.lazy != nil {
			s.put([]byte(r.key), r.lazy, true)
		}
	}
	close(later.done)
}
