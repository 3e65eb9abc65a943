package boltstore

import (
	"context"
	"fmt"

	"github.com/redo-go/redo/store"
)

// A call decides on its caller's goroutine, from the record in memory or else in the file. It puts the outcome into
// the overlay, which holds the records that changed since the last commit. The writer commits the changed records, a
// group at a time. So a lazy outcome is immediately checked and visible, and a decision never waits for a commit. The
// response does:
//
//   - A durable change returns when its group is committed.
//   - A lazy change returns immediately, and so does a call that changes nothing.
//   - No response rests on a durable change that a crash can still undo. A call that read such a change waits for
//     its group. If the group fails, the call decides again.
//
// When a commit fails, its durable members return the error. Later decisions rest on changes that were
// not made, so they are discarded and made again. Lazy outcomes that were returned stay in the overlay and go into the
// next group.

// A row is a record that changed since the last commit.
type row struct {
	key     string
	rec     *record // nil: absent
	in      *group  // the last group that it changed in
	durable *group  // the last group with a durable change of it; nil: none
	// lazy is the record as a returned lazy change left it, until that is committed in lazyIn.
	lazy   *record
	lazyIn *group
}

// awaits returns the group that a response about the row waits for, nil if none.
func (r *row) awaits() *group {
	if r == nil || r.durable == nil || r.durable.settled {
		return nil
	}
	return r.durable
}

// A change is the decision of a transition. Its zero value changes nothing. A change that is made with a nil next
// removes the record.
type change struct {
	made bool
	next *record
}

// A mode is the purpose of a transition.
type mode uint8

const (
	durable  mode = iota // change the record under its lease, and return when that is on disk
	lazily               // change the record under its lease, and return at once
	claiming             // own the record
	reading              // read the record
)

// transition runs one call. decide gets the record, nil if it is absent or has expired, and the clock. It is called
// under the mutex, again if a commit fails meanwhile, and its last decision counts.
//
// For an ID that a transaction holds, a claim meets the txClaim's record, and every other call the record as it was
// before. A change of that record waits until the transaction has ended, because only then the lease is known to be
// lost or not.
func (s *Store) transition(
	ctx context.Context, id store.ID, how mode, decide func(*record, int64) (change, error),
) error {
	if err := id.Validate(); err != nil {
		return fmt.Errorf("boltstore: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	var buf [128]byte
	key := appendKey(buf[:0], id)
	for {
		cur, row, err := s.lock(ctx, key)
		if err != nil {
			return err
		}
		awaits := row.awaits()
		if how == lazily && awaits != nil {
			s.mu.Unlock()
			if err := wait(ctx, awaits); err != nil {
				return err
			}
			continue
		}
		now := s.clock.now()
		claim := s.claims[string(key)]
		if claim != nil && how == claiming {
			cur = claim.shown
		}
		ch, err := decide(alive(cur, now), now)
		if claim != nil && ch.made {
			s.mu.Unlock()
			select {
			case <-claim.ended:
			case <-s.quit:
			case <-ctx.Done():
				return ctx.Err()
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
		g.due = err == nil
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

// put makes a change part of the current group and returns that. The caller makes a durable change due. The mutex
// is held.
func (s *Store) put(key []byte, next *record, lazy bool) *group {
	g := s.current
	r := s.overlay[string(key)]
	if r == nil {
		r = &row{key: string(key)}
		s.overlay[r.key] = r
	}
	if next != nil {
		next.epoch = s.epoch
	}
	r.rec = next
	if r.in != g {
		r.in = g
		g.rows = append(g.rows, r)
	}
	g.changes++
	if !lazy {
		r.durable = g
		return g
	}
	r.lazy, r.lazyIn = next, g
	s.notify(r.key)
	if !g.lazy && !s.closing {
		g.lazy = true
		s.timer.Reset(s.retryDelay())
	}
	return g
}
