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
// Lazy claims that were returned are written first.
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
			for _, id := range page.ids {
				if scope != "" && id.Scope != scope {
					continue
				}
				// The record may have changed since the index was read.
				r, err := s.Find(ctx, id)
				switch {
				case errors.Is(err, store.ErrNotFound), err == nil && r.State != store.StatePending:
					continue
				case err != nil && !errors.Is(err, store.ErrDamaged) && !errors.Is(err, ErrFormat):
					yield(store.Record{}, err)
					return
				case err != nil:
					r = store.Record{ID: id}
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
		if g.err != nil {
			return g.err
		}
	}
	return nil
}

// A pendingPage holds the entries that one iterator takes from the index.
type pendingPage struct {
	ids      []store.ID
	last     []byte // the last index key
	more     bool   // the index may have more
	nameless error  // the first error of an entry whose ID can't be read, also of the pages before
}

// scanPending reads the page after another.
func (s *Store) scanPending(p *pendingPage) error {
	if err := s.ready(); err != nil {
		return err
	}
	p.ids = p.ids[:0]
	return s.view(func(db *pebble.DB) error {
		end, err := scan(db, pendingPrefix, p.last, func(k []byte) bool {
			if len(p.ids) == scanned {
				return false
			}
			_, key, err := envelope.SplitIndexKey(k[1:])
			var id store.ID
			if err == nil {
				id, err = envelope.ParseKey(key)
			}
			if err != nil {
				p.nameless = cmp.Or(p.nameless, corrupt("%w", err))
				return true
			}
			p.ids, p.last = append(p.ids, id), bytes.Clone(k)
			return true
		})
		p.more = end != nil
		return err
	})
}
