package boltstore

import (
	"fmt"
	"runtime"
)

// A writer is the goroutine that commits the groups.
type writer struct {
	*Store
	last uint64 // changes in the last group
}

func (w *writer) run() {
	defer close(w.stopped)
	for range w.wake {
		for w.flush() {
		}
		w.mu.Lock()
		// Close may come after the last flush. The changes that are then queued are committed first, since Close
		// sends another token.
		done := w.closing && (w.closeErr != nil || !w.ripe())
		w.mu.Unlock()
		if done {
			w.shut()
			return
		}
	}
}

// flush commits the current group if it is due, and reports whether there may be more. It takes the write lock
// before it seals the group, because a transaction that commits meanwhile has a higher fence, and the state must
// not fall behind it.
func (w *writer) flush() bool {
	w.gather()
	w.mu.Lock()
	ready := w.ripe()
	w.mu.Unlock()
	if !ready {
		return false
	}
	w.writing <- struct{}{}
	defer w.unlockFile()
	w.mu.Lock()
	if !w.ripe() {
		w.mu.Unlock()
		return true
	}
	g := w.stamped(w.seal())
	w.stats.Groups++
	w.stats.Transitions += g.changes
	w.stats.Largest = max(w.stats.Largest, g.changes)
	w.mu.Unlock()
	w.last = g.changes

	err := w.write(g)

	w.mu.Lock()
	defer w.mu.Unlock()
	w.settle(g, err)
	if err != nil && w.closing && len(w.overlay) > 0 {
		w.closeErr = fmt.Errorf("boltstore: %q: closing: lazy changes are lost: %w", w.path, err)
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
func (w *writer) ripe() bool {
	return w.broken == nil && (w.current.due || w.closing && len(w.current.rows) > 0)
}

// gather lets the callers of the last commit come back before the next group is sealed. Otherwise
// they fall into two halves that wait for each other's commits, and the cost of a commit hardly depends on the
// size of its group. It yields while the group grows, some microseconds in all. A single caller never waits.
func (w *writer) gather() {
	if w.last < 2 {
		return
	}
	before, still := uint64(0), 0
	for yields := 0; yields < 64 && still < 3; yields++ {
		w.mu.Lock()
		n := w.current.changes
		w.mu.Unlock()
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
func (w *writer) shut() {
	w.writing <- struct{}{}
	err := w.closeFile()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closeErr != nil:
	case len(w.overlay) > 0: // lazy changes that a broken store has left
		w.closeErr = fmt.Errorf("boltstore: %q: closing: lazy changes are lost: %w", w.path, w.broken)
	case err != nil:
		w.closeErr = fmt.Errorf("boltstore: %q: closing: %w", w.path, err)
	}
	w.poller.Pushed(true)
}
