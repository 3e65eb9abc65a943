package pebblestore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"github.com/redo-go/redo/internal/envelope"
	"github.com/redo-go/redo/store"
)

// scanned is the number of index entries that one iterator takes. An open iterator keeps files that were compacted.
const scanned = 256

// Pending implements [store.Lister]. Its cost grows with the number of pending records, not with the directory. Records
// of the same instant come in the order of their keys. The error of an index entry that names no record comes last.
// Lazy claims that were returned are written first. It does not list records that are made while it runs.
func (s *Store) Pending(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		if err := s.writeClaims(ctx); err != nil {
			yield(store.Record{}, err)
			return
		}
		page := pendingPage{more: true}
		for page.more {
			err := ctx.Err()
			if err == nil {
				err = s.scanPending(&page)
			}
			if err != nil {
				yield(store.Record{}, err)
				return
			}
			for _, e := range page.entries {
				if scope != "" && e.id.Scope != scope {
					continue
				}
				// The record may have changed since the index was read, or another may have been made for its ID.
				r, err := s.Find(ctx, e.id)
				switch {
				case errors.Is(err, store.ErrNotFound), err == nil && envelope.Listed(r) != e.created:
					continue
				case err != nil && !errors.Is(err, store.ErrDamaged) && !errors.Is(err, ErrFormat):
					yield(store.Record{}, err)
					return
				case err != nil:
					r = store.Record{ID: e.id}
				}
				if !yield(r, err) {
					return
				}
			}
		}
		if page.nameless != nil {
			yield(store.Record{}, s.explain(page.nameless))
		}
	}
}

// writeClaims writes the lazy claims that were returned: Pebble alone has an index of the pending records.
func (s *Store) writeClaims(ctx context.Context) error {
	s.mu.Lock()
	if err := s.usable(); err != nil { // no group is written any more
		s.mu.Unlock()
		return err
	}
	groups := map[*group]bool{}
	for _, r := range s.overlay {
		if r.lazy && r.rec != nil && r.rec.pending() {
			groups[r.in], r.in.due = true, true
		}
	}
	s.mu.Unlock()
	s.signal()
	for g := range groups {
		if err := wait(ctx, g); err != nil {
			return err
		}
	}
	return nil // if a group failed, the store is broken
}

// A pendingEntry is an entry of the index of pending records.
type pendingEntry struct {
	id      store.ID
	created int64 // when its record was made
}

// A pendingPage holds the entries that one iterator takes from the index.
type pendingPage struct {
	entries  []pendingEntry
	last     []byte // the last index key
	until    int64  // the last instant of the list, as it begins; zero before
	more     bool   // the list may have more
	nameless error  // the first error of an entry whose ID can't be read, also of the pages before
}

// scanPending reads the page after another.
func (s *Store) scanPending(p *pendingPage) error {
	if err := s.ready(); err != nil {
		return err
	}
	s.mu.Lock()
	now := s.clock.Now()
	s.mu.Unlock()
	p.entries = p.entries[:0]
	return s.view(func(db *pebble.DB) error {
		if p.until == 0 { // before a restart, the clock may have been ahead
			last, err := lastInstant(db, pendingPrefix)
			if err != nil {
				return err
			}
			p.until = max(now, last)
		}
		whole := false
		end, err := scan(db, pendingPrefix, p.last, func(k []byte) bool {
			at, key, err := envelope.SplitIndexKey(k[1:])
			if whole = err == nil && at > p.until; whole || len(p.entries) == scanned {
				return false
			}
			var id store.ID
			if err == nil {
				id, err = envelope.ParseKey(key)
			}
			if err != nil {
				p.nameless = cmp.Or(p.nameless, corrupt("%w", err))
				return true
			}
			p.entries, p.last = append(p.entries, pendingEntry{id, at}), bytes.Clone(k)
			return true
		})
		p.more = end != nil && !whole
		return err
	})
}

// lastInstant returns the last instant of an index, or zero.
func lastInstant(db pebble.Reader, prefix byte) (at int64, err error) {
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefix}, UpperBound: []byte{prefix + 1}})
	if err != nil {
		return 0, err
	}
	if it.Last() {
		at, _, _ = splitIndexKey(it.Key())
	}
	return at, it.Close()
}
