package boltstore

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/redo-go/redo/internal/envelope"
	"github.com/redo-go/redo/store"
)

// A call decides on its caller's goroutine, from the record in memory or else in the file. It puts the outcome into
// the overlay, which holds the records that changed since the last commit. The writer commits the changed records, a
// group at a time. So a lazy change is immediately checked and visible, and a decision never waits for a commit of
// other records. The response does:
//
//   - A durable change returns when its group is committed.
//   - A lazy change returns immediately, and so does a call that changes nothing.
//   - No response rests on a durable change that a crash can still undo. A call that meets such a change waits for its
//     group, and decides then. So no change rests on a durable one of the same or of a later group.
//
// When a commit fails, its durable members return the error. Lazy outcomes that were returned stay in the overlay and
// go into the next group.

// A row is a record that changed since the last commit.
type row struct {
	key     string
	rec     *record // nil: absent
	in      *group
	durable bool    // a caller waits for the change
	lazy    *record // the record as a returned lazy change left it; nil: none
}

// A mode is the purpose of a transition.
type mode struct {
	claims bool // own the record; otherwise change it under its lease, or read it
	lazy   bool // return before a change is on disk
}

// A decision gets the record, nil if it is absent or has expired, and the clock. It returns the record as the call
// leaves it, nil to remove it. made is false if the call changes nothing.
type decision func(cur *record, now time.Time) (next *record, made bool, err error)

// transition runs one call. It calls decide under the mutex, again if the record is in a commit, and the last decision
// counts.
//
// For an ID that a transaction holds, a claim meets the txClaim's record, and every other call the record as it was
// before. A change of that record waits until the transaction has ended, because only then the lease is known to be
// lost or not.
func (s *Store) transition(ctx context.Context, id store.ID, how mode, decide decision) error {
	if err := cmp.Or(id.Validate(), ctx.Err()); err != nil {
		return err
	}
	var buf [128]byte
	key := envelope.AppendKey(buf[:0], id)
	for {
		cur, row, err := s.lock(ctx, key)
		if err != nil {
			return err
		}
		now := time.Unix(0, s.clock.Now())
		claim := s.claims[string(key)]
		if claim != nil && how.claims {
			cur = claim.shown
		}
		if cur != nil && cur.Expired(now) {
			cur = nil
		}
		var next *record
		made := row != nil && row.durable // by another call, and not on disk
		if !made {
			next, made, err = decide(cur, now)
		}
		switch {
		case err != nil || !made:
			s.mu.Unlock()
			return err
		case row != nil && (row.durable || row.in != s.current):
			s.mu.Unlock()
			if err := wait(ctx, row.in); err != nil {
				return err
			}
			continue
		case claim != nil:
			s.mu.Unlock()
			select {
			case <-claim.ended:
			case <-s.quit:
			case <-ctx.Done():
				return ctx.Err()
			}
			continue
		}
		// A claim is not lazy if the file has not reserved its fence, or if the last commit failed.
		lazy := how.lazy && (!how.claims || next.Fence <= s.fences && s.failures == 0)
		joined := s.put(string(key), next, lazy)
		s.mu.Unlock()
		if lazy {
			return nil
		}
		s.signal()
		if err := wait(ctx, joined); err != nil {
			return fmt.Errorf("boltstore: %w: %w", err, store.ErrUnknown)
		}
		return joined.err
	}
}

// lock returns the current record, and its row if the overlay has it, with the mutex held. For an ID that a transaction
// holds it returns the record as it was before. On an error the mutex is not held.
func (s *Store) lock(ctx context.Context, key []byte) (*record, *row, error) {
	for overtaken := false; ; overtaken = true {
		s.mu.Lock()
		if err := s.ascertain(ctx); err != nil {
			return nil, nil, err
		}
		if r := s.overlay[string(key)]; r != nil {
			return r.rec, r, nil
		}
		if c := s.claims[string(key)]; c != nil {
			return c.before, nil, nil
		}
		if overtaken { // reading under the lock ends the race
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
		if s.gen == gen && s.overlay[string(key)] == nil && s.claims[string(key)] == nil && s.usable() == nil {
			return r, nil, nil
		}
		s.mu.Unlock() // a commit came between the read and the lock
	}
}

// ascertain returns nil, with the mutex held, when the store can be used and the visible content of the file is on
// disk. After a commit with an unknown outcome it waits for another commit, which makes the file certain if it
// succeeds. The mutex is held on entry, and not held after an error.
func (s *Store) ascertain(ctx context.Context) error {
	for {
		err, g := s.usable(), s.current
		if err == nil && !s.suspect {
			return nil
		}
		g.due = g.due || err == nil // it may have callers, also if the store is being closed
		s.mu.Unlock()
		if err != nil {
			return err
		}
		s.signal()
		if err := wait(ctx, g); err != nil {
			return err
		}
		if g.err != nil {
			return fmt.Errorf("boltstore: %q: what it shows may not be on disk, and a commit failed: %s: %w",
				s.path, g.err.Error(), store.ErrUnavailable) // the call itself has changed nothing
		}
		s.mu.Lock()
	}
}

// put makes a change part of the current group and returns that. The record has no row in another group. The mutex is
// held.
func (s *Store) put(key string, next *record, lazy bool) *group {
	g := s.current
	r := s.overlay[key]
	if r == nil {
		r = &row{key: key, in: g}
		s.overlay[key] = r
		g.rows = append(g.rows, r)
	}
	if next != nil {
		next.epoch = s.epoch
	}
	r.rec = next
	g.changes++
	if !lazy {
		r.durable, g.due = true, true
		return g
	}
	r.lazy = next
	s.notify(r.key)
	if !g.lazy && !s.closing {
		g.lazy = true
		s.timer.Reset(s.retryDelay())
	}
	return g
}
