package boltstore

import (
	"fmt"
	"runtime"
)

// commitGroups is the goroutine that commits the groups.
func (s *Store) commitGroups() {
	defer close(s.stopped)
	for range s.wake {
		for s.flush() {
		}
		s.mu.Lock()
		// Close may come after the last flush. The changes that are then queued are committed first, since Close
		// sends another token.
		done := s.closing && (s.closeErr != nil || !s.ripe())
		s.mu.Unlock()
		if done {
			s.shut()
			return
		}
	}
}

// flush commits the current group if it is due, and reports whether there may be more. It takes the write lock
// before it seals the group, because a transaction that commits meanwhile has a higher fence, and the state must
// not fall behind it.
func (s *Store) flush() bool {
	s.gather()
	s.mu.Lock()
	ready := s.ripe()
	s.mu.Unlock()
	if !ready {
		return false
	}
	s.writing <- struct{}{}
	defer s.unlockFile()
	s.mu.Lock()
	if !s.ripe() {
		s.mu.Unlock()
		return true
	}
	g := s.stamped(s.seal())
	s.stats.Groups++
	s.stats.Transitions += g.changes
	s.stats.Largest = max(s.stats.Largest, g.changes)
	s.mu.Unlock()
	s.last = g.changes

	err := s.write(g)

	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle(g, err)
	if err == nil || !s.closing {
		return true
	}
	s.settle(s.seal(), s.usable()) // no commit follows for its callers
	if len(s.overlay) > 0 {
		s.closeErr = fmt.Errorf("boltstore: %q: closing: lazy changes are lost: %w", s.path, err)
		return false
	}
	return true
}

// seal ends the current group, which takes no more changes. The mutex is held.
func (s *Store) seal() *group {
	g := s.current
	s.current = newGroup()
	return g
}

// ripe reports whether the current group is to be committed now. The mutex is held.
func (s *Store) ripe() bool {
	return s.broken == nil && (s.current.due || s.closing && len(s.current.rows) > 0)
}

// gather lets the callers of the last commit come back before the next group is sealed. Otherwise
// they fall into two halves that wait for each other's commits, and the cost of a commit hardly depends on the
// size of its group. It yields while the group grows, some microseconds in all. A single caller never waits.
func (s *Store) gather() {
	if s.last < 2 {
		return
	}
	before, still := uint64(0), 0
	for yields := 0; yields < 64 && still < 3; yields++ {
		s.mu.Lock()
		n := s.current.changes
		s.mu.Unlock()
		if n > 0 && n == before {
			still++
		} else {
			still = 0
		}
		before = n
		runtime.Gosched()
	}
}

// shut closes the file, after the reads that have begun and a transaction that is still open.
func (s *Store) shut() {
	s.writing <- struct{}{}
	err := s.closeFile()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closeErr != nil:
	case len(s.overlay) > 0: // lazy changes that a broken store has left
		s.closeErr = fmt.Errorf("boltstore: %q: closing: lazy changes are lost: %w", s.path, s.broken)
	case err != nil:
		s.closeErr = fmt.Errorf("boltstore: %q: closing: %w", s.path, err)
	}
	s.poller.Pushed(true)
}
