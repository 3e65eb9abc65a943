package boltstore

import (
	"context"
	"fmt"
	"time"

	"github.com/redo-go/redo/store"
)

// How a call runs. It is decided on the caller's own goroutine, against what stands in memory or else in the
// file, and the outcome is put into the overlay: the records that the file does not have yet. The writer
// commits the changed records, a group at a time. That way a lazy outcome is checked and visible at once,
// whatever the disk is doing, and a decision never waits for a commit, only its answer does:
//
//   - A durable change is answered when its group is committed.
//   - A lazy change is answered at once, and so is a call that changes nothing.
//   - But no answer may rest on a durable change that a crash can still undo. A call that saw one waits for
//     that change's group. If the group fails the call decides again.
//
// When a commit fails, its durable members get the error. What was decided since rests on changes that were
// not made, so it is discarded unanswered and decided again. Lazy outcomes that were answered stay in the
// overlay and go into the next group.

// A group is what one commit carries.
type group struct {
	cells   []*cell
	changes uint64
	due     bool          // commit it now
	oldest  time.Time     // when the first lazy change joined
	done    chan struct{} // closed when the group is settled
	// Set before done is closed, under the mutex.
	settled   bool
	discarded bool  // it was never tried: decide again
	err       error // for its durable members, if the commit failed
}

func newGroup() *group { return &group{done: make(chan struct{})} }

// A cell is a record that changed since the last commit.
type cell struct {
	key     string
	rec     *record // nil: absent
	in      *group  // the last group that it changed in
	durable *group  // the last group with a durable change of it, nil: none
	// lazy is the record as an answered lazy change left it, until that is committed in lazyIn.
	lazy   *record
	lazyIn *group
}

// awaits returns the group that an answer about the cell has to wait for.
func (c *cell) awaits() *group {
	if c == nil || c.durable == nil || c.durable.settled {
		return nil
	}
	return c.durable
}

// A change is what a transition decided. Its zero value changes nothing; made with a nil next removes the record.
type change struct {
	made bool
	next *record
}

// A mode is what a call wants of its transition.
type mode uint8

const (
	durable  mode = iota // to change the record under its lease, and to be answered when that is on disk
	lazily               // to change it under its lease, and to be answered at once
	claiming             // to own the record
	reading              // to see it
)

// transition runs one call. decide gets the record, nil when it is absent or expired, and the clock; it is
// called under the mutex, more than once if a commit fails meanwhile, and its last word counts.
//
// Of an ID that a transaction holds, who claims it gets the hold's shadow, and everybody else what stood before. Who would
// change that waits for the transaction: whether the lease is lost is known when that is over.
func (s *Store) transition(ctx context.Context, id store.ID, how mode, decide func(*record, int64) (change, error)) error {
	if err := id.Validate(); err != nil {
		return fmt.Errorf("boltstore: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	var buf [128]byte
	key := appendKey(buf[:0], id)
	for {
		cur, c, err := s.lock(ctx, key)
		if err != nil {
			return err
		}
		awaits := c.awaits()
		if how == lazily && awaits != nil {
			s.mu.Unlock()
			if err := wait(ctx, awaits); err != nil {
				return err
			}
			continue
		}
		now := s.clock.now()
		h := s.held[string(key)]
		if h != nil && how == claiming {
			cur = h.shadow
		}
		ch, err := decide(alive(cur, now), now)
		if h != nil && ch.made {
			s.mu.Unlock()
			if err := s.outlast(ctx, h); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			err = fmt.Errorf("boltstore: %w", err)
		}
		if !ch.made {
			s.mu.Unlock()
			if awaits == nil {
				return err
			}
			if werr := wait(ctx, awaits); werr != nil {
				return werr
			}
			if awaits.err == nil && !awaits.discarded {
				return err
			}
			continue
		}
		joined := s.put(key, ch.next, how == lazily)
		joined.due = joined.due || how != lazily
		s.mu.Unlock()
		if how == lazily {
			return nil
		}
		s.signal()
		if err := wait(ctx, joined); err != nil {
			return fmt.Errorf("boltstore: %w: %w", err, store.ErrUnknown)
		}
		if !joined.discarded {
			return joined.err
		}
	}
}

// wait returns when the group is settled, or the context's error when that ends first.
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

// lock returns the record as it stands, with the mutex held, and its cell if the overlay has it. Of an ID that a
// transaction holds it returns what stood before. On an error the mutex is not held.
func (s *Store) lock(ctx context.Context, key []byte) (*record, *cell, error) {
	overtaken := false
	for {
		s.mu.Lock()
		if err := s.usable(); err != nil {
			s.mu.Unlock()
			return nil, nil, err
		}
		if s.suspect {
			if err := s.ascertain(ctx); err != nil {
				return nil, nil, err
			}
			continue
		}
		if c := s.overlay[string(key)]; c != nil {
			return c.rec, c, nil
		}
		if h := s.held[string(key)]; h != nil {
			return h.stands, nil, nil
		}
		if overtaken {
			// A commit landed between the read and the lock. Reading under the lock ends that race.
			r, err := s.read(key)
			if err != nil {
				s.mu.Unlock()
			}
			return r, nil, err
		}
		gen := s.gen
		s.mu.Unlock()
		r, err := s.read(key)
		if err != nil {
			return nil, nil, err
		}
		s.mu.Lock()
		if s.gen == gen && s.overlay[string(key)] == nil && s.held[string(key)] == nil && s.usable() == nil {
			return r, nil, nil
		}
		s.mu.Unlock()
		overtaken = true
	}
}

// ascertain has the file committed after a commit whose outcome is unknown: what the file shows may not be on disk. A
// commit that succeeds puts that right, whatever it carries. The mutex is held on entry, and not on return.
func (s *Store) ascertain(ctx context.Context) error {
	g := s.current
	g.due = true
	s.mu.Unlock()
	s.signal()
	if err := wait(ctx, g); err != nil {
		return err
	}
	if g.err != nil {
		return fmt.Errorf("boltstore: %q: the commit before failed too: %w", s.path, store.ErrUnavailable)
	}
	return nil
}

// put makes a change part of the current group and returns that. A durable change is for the caller to make
// due. The mutex is held.
func (s *Store) put(key []byte, next *record, lazy bool) *group {
	g := s.current
	c := s.overlay[string(key)]
	if c == nil {
		c = &cell{key: string(key)}
		s.overlay[c.key] = c
	}
	if next != nil {
		next.epoch = s.epoch
	}
	c.rec = next
	if c.in != g {
		c.in = g
		g.cells = append(g.cells, c)
	}
	g.changes++
	if !lazy {
		c.durable = g
		return g
	}
	c.lazy, c.lazyIn = next, g
	s.notify(c.key)
	if g.oldest.IsZero() {
		g.oldest = time.Now()
		s.arm(s.delay)
	}
	return g
}

// arm sees to it that the writer looks at the current group after d at the latest. The mutex is held.
func (s *Store) arm(d time.Duration) {
	if s.armed || s.closing {
		return
	}
	s.armed = true
	s.timer.Reset(d)
}

// overdue is the timer's function. The timer is not reset for every lazy change, so it may fire for a group
// that has been committed since; then the current one has some time left.
func (s *Store) overdue() {
	s.mu.Lock()
	s.armed = false
	g := s.current
	if g.oldest.IsZero() || s.closing {
		s.mu.Unlock()
		return
	}
	if left := s.retryDelay() - time.Since(g.oldest); left > 0 {
		s.arm(left)
		s.mu.Unlock()
		return
	}
	g.due = true
	s.mu.Unlock()
	s.signal()
}

// retryDelay is the lazy delay, doubled up to a second for every commit that failed in a row.
func (s *Store) retryDelay() time.Duration {
	d := s.delay
	for range min(s.failures, 10) {
		d = min(max(2*d, time.Millisecond), max(time.Second, s.delay))
	}
	return d
}

func (s *Store) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// succeed settles a committed group. The mutex is held.
func (s *Store) succeed(g *group) {
	s.suspect, s.failures = false, 0
	s.gen++
	g.settled = true
	for _, c := range g.cells {
		if c.lazyIn == g {
			c.lazy, c.lazyIn = nil, nil
		}
		if c.in == g {
			delete(s.overlay, c.key)
		}
		s.notify(c.key)
	}
	close(g.done)
}

// fail settles a group whose commit failed, and discards what was decided since. The mutex is held.
func (s *Store) fail(g *group, err error, unknown bool) {
	s.suspect = s.suspect || unknown
	s.failures++
	s.gen++
	g.settled, g.err = true, err
	s.discard()
	close(g.done)
}

// discard has the changes of the current group decided again, save lazy outcomes that were answered. The mutex is held.
func (s *Store) discard() {
	later := s.current
	later.settled, later.discarded = true, true
	cells := s.overlay
	s.overlay, s.current = make(map[string]*cell), newGroup()
	for _, c := range cells {
		if c.lazy != nil {
			s.put([]byte(c.key), c.lazy, true)
		}
	}
	close(later.done)
}
