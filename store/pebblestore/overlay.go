package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/redo-go/redo/internal/envelope"
	"github.com/redo-go/redo/store"
)

// A call decides on its caller's goroutine, from the record in memory or else in Pebble. It puts the outcome into the
// overlay, which holds the records with changes that are not on disk. The writer hands the changes to Pebble, a group
// at a time. So a lazy change is immediately checked and visible, and a decision never waits for a sync of other
// records. The response does:
//
//   - A durable change returns when its group is on disk.
//   - A lazy change returns immediately, and so does a call that changes nothing.
//   - No response rests on a durable change that a crash can still undo. A call that meets such a change waits for its
//     group, and decides then.
//
// Pebble writes the groups in their order, so a group is on disk only after those before it.

// A row is a record with changes that are not on disk.
type row struct {
	key     string
	was     *record // before the group; nil: absent
	rec     *record // nil: absent
	in      *group
	durable bool     // a caller waits for the change
	lazy    bool     // a lazy change was returned
	drop    [][]byte // keys of indexes that are deleted with a damaged record
}

// A mode determines when a call that makes a change returns.
type mode uint8

const (
	durable        mode = iota // when the change is on disk
	lazily                     // immediately
	claimingLazily             // immediately, if the fence is reserved on disk
)

// lazy reports whether a call that leaves the record as next may return before that is on disk. The mutex is held.
func (s *Store) lazy(how mode, next *record) bool {
	return how == lazily || how == claimingLazily && next.Fence <= s.reserved
}

// A decision gets the record, nil if it is absent or has expired, and the clock. It returns the record as the call
// leaves it, nil to remove it. made is false if the call changes nothing.
type decision func(cur *record, now time.Time) (next *record, made bool, err error)

// transition runs one call. It calls decide under the mutex, again if the record is being synced, and the last decision
// counts.
func (s *Store) transition(ctx context.Context, id store.ID, how mode, decide decision) error {
	if err := id.Validate(); err != nil {
		return fmt.Errorf("pebblestore: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	var buf [128]byte
	key := envelope.AppendKey(append(buf[:0], recordsPrefix), id)[1:]
	for {
		cur, row, err := s.lock(key)
		if err != nil {
			return err
		}
		if row != nil && row.durable {
			s.mu.Unlock()
			if err := wait(ctx, row.in); err != nil {
				return err
			}
			continue
		}
		now := time.Unix(0, s.clock.Now())
		next, made, err := decide(alive(cur, now), now)
		switch {
		case err != nil:
			s.mu.Unlock()
			return fmt.Errorf("pebblestore: %w", err)
		case !made:
			s.mu.Unlock()
			return nil
		case row != nil && row.in != s.current:
			s.mu.Unlock()
			if err := wait(ctx, row.in); err != nil {
				return err
			}
			continue
		}
		lazy := s.lazy(how, next)
		joined := s.put(key, cur, next, lazy)
		s.mu.Unlock()
		if lazy {
			return nil
		}
		return s.join(ctx, joined)
	}
}

// join returns when the group is on disk, or the error for a caller whose change it has.
func (s *Store) join(ctx context.Context, g *group) error {
	s.signal()
	if err := wait(ctx, g); err != nil {
		return fmt.Errorf("pebblestore: %w: %w", err, store.ErrUnknown)
	}
	return g.err
}

// alive returns the record unless it has expired: an expired record is absent.
func alive(r *record, now time.Time) *record {
	if r == nil || r.Expired(now) {
		return nil
	}
	return r
}

// lock returns the current record, and its row if the overlay has it, with the mutex held. On an error the mutex is not
// held.
func (s *Store) lock(key []byte) (*record, *row, error) {
	var read *record
	for turns, tried := uint64(0), false; ; tried = true {
		s.mu.Lock()
		if err := s.usable(); err != nil {
			s.mu.Unlock()
			return nil, nil, err
		}
		if r := s.overlay[string(key)]; r != nil {
			return r.rec, r, nil
		}
		if r, ok := s.recent.get(key); ok {
			return r, nil, nil
		}
		if s.filter.lacks(key) {
			return nil, nil, nil
		}
		if tried && turns == s.recent.turns { // the record has not changed since it was read
			return read, nil, nil
		}
		turns = s.recent.turns
		s.mu.Unlock()
		var err error
		if read, err = s.read(key); err != nil {
			return nil, nil, err
		}
	}
}

// read returns the record that Pebble has under key, or nil. The lease of a record that an earlier Open wrote is void,
// because its owner died. So Open need not rewrite these records.
func (s *Store) read(key []byte) (r *record, err error) {
	err = s.view(func(db *pebble.DB) error {
		r, err = get(db, key)
		return err
	})
	if err == nil && r != nil && r.epoch != s.epoch {
		r.LeaseUntil = time.Time{}
	}
	return r, err
}

// view runs f while the database is open.
func (s *Store) view(f func(db *pebble.DB) error) error {
	s.reading.RLock()
	defer s.reading.RUnlock()
	if s.db == nil {
		return fmt.Errorf("pebblestore: %q is closed: %w", s.path, store.ErrUnavailable)
	}
	return s.explain(f(s.db))
}

// get returns a record, or nil if there is none.
func get(db pebble.Reader, key []byte) (*record, error) {
	var buf [160]byte
	v, closer, err := db.Get(append(append(buf[:0], recordsPrefix), key...))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		if pebble.IsCorruptionError(err) {
			err = corrupt("%w", err)
		}
		return nil, named(key, err)
	}
	r, err := decodeRecord(key, bytes.Clone(v))
	return r, errors.Join(named(key, err), closer.Close())
}

// named adds the ID to the error of a record that was found under its key.
func named(key []byte, err error) error {
	if err == nil {
		return nil
	}
	id, unnamed := envelope.ParseKey(key)
	switch {
	case unnamed != nil:
		return err
	case errors.Is(err, ErrCorrupt):
		return fmt.Errorf("the record of %v: %w: %w", id, store.ErrDamaged, err)
	}
	return fmt.Errorf("the record of %v: %w", id, err)
}

// put makes a change part of the current group and returns that. The record has no row in another group. The mutex is
// held.
func (s *Store) put(key []byte, was, next *record, lazy bool) *group {
	g := s.current
	r := s.overlay[string(key)]
	if r == nil {
		r = &row{key: string(key), was: was, in: g}
		s.overlay[r.key] = r
		g.rows = append(g.rows, r)
		if created(was, next) {
			s.added(key)
		}
	}
	if next != nil {
		next.epoch = s.epoch
	}
	r.rec = next
	if !lazy {
		r.durable, g.due = true, true
		return g
	}
	r.lazy = true
	s.notify(r.key)
	if !g.lazy {
		g.lazy = true
		s.timer.Reset(s.delay)
	}
	return g
}

// created reports whether next is a new record, and not a change of was. An expired record may be purged meanwhile.
func created(was, next *record) bool {
	return next != nil && (was == nil || !was.CreatedAt.Equal(next.CreatedAt))
}
