package boltstore

import (
	"errors"
	"fmt"
	"runtime"
)

// A writer is the goroutine that commits the groups.
type writer struct {
	*Store
	draft
	last uint64 // changes in the last group
}

func (w *writer) run() {
	defer close(w.stopped)
	for range w.wake {
		for w.flush() {
		}
		w.mu.Lock()
		closing := w.closing
		w.mu.Unlock()
		if closing {
			w.shut()
			return
		}
	}
}

// flush commits the current group if it is due, and reports whether there may be more. It takes the turn before it
// seals the group: what a transaction commits meanwhile has a higher fence, and the state must not fall behind it.
func (w *writer) flush() bool {
	w.gather()
	w.mu.Lock()
	ready := w.ripe()
	w.mu.Unlock()
	if !ready {
		return false
	}
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	w.mu.Lock()
	if !w.ripe() {
		w.mu.Unlock()
		return true
	}
	g := w.current
	w.current = newGroup()
	w.writes = w.writes[:0]
	for _, c := range g.cells {
		w.writes = append(w.writes, write{c.key, c.rec})
	}
	st := w.state()
	w.stats.Groups++
	w.stats.Transitions += g.changes
	w.stats.Largest = max(w.stats.Largest, g.changes)
	w.mu.Unlock()
	w.last = g.changes

	err, unknown := w.write(&w.draft, st)
	w.recycle()

	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.stats.Commits++
		w.succeed(g)
		return true
	}
	w.stats.Failures++
	w.fail(g, w.commitError(err, unknown), unknown)
	if errors.Is(err, ErrCorrupt) {
		w.breakDown(err)
	}
	if w.closing && len(w.overlay) > 0 {
		w.closeErr = fmt.Errorf("boltstore: %q: closing: lazy outcomes are lost: %w", w.path, err)
		return false
	}
	return true
}

// ripe reports whether the current group is to be committed now. The mutex is held.
func (w *writer) ripe() bool {
	return w.broken == nil && (w.current.due || w.closing && len(w.current.cells) > 0)
}

// gather lets callers that the last commit has answered come back before the next group is sealed. Otherwise
// they fall into two halves that wait for each other's commits, and what a commit costs hardly depends on the
// size of its group. It yields while the group grows, some microseconds in all; a single caller is never kept
// waiting.
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

// shut closes the file. Reads that have begun finish first, and so does a transaction that is still open.
func (w *writer) shut() {
	w.turn <- struct{}{}
	err := w.closeFile()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closeErr != nil:
	case len(w.overlay) > 0: // the store broke and what is left are lazy outcomes
		w.closeErr = fmt.Errorf("boltstore: %q: closing: lazy outcomes are lost: %w", w.path, w.broken)
	case err != nil:
		w.closeErr = fmt.Errorf("boltstore: %q: closing: %w", w.path, err)
	}
	w.notifyAll()
}
