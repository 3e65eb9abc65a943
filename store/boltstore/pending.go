package boltstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/redo-go/redo/internal/envelope"
	"github.com/redo-go/redo/store"
	"go.etcd.io/bbolt"
)

// scanned is the number of index entries that one read transaction takes: an open one keeps the file from growing.
const scanned = 256

// Pending implements [store.Lister]. Its cost grows with the number of pending records, not with the file. Records
// of the same instant come in the order of their keys. The error of an index entry that names no record comes last.
// Lazy claims that were returned are committed first. It does not list records that are made while it runs.
func (s *Store) Pending(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		if err := s.commitClaims(ctx); err != nil {
			yield(store.Record{}, err)
			return
		}
		page := pendingPage{next: []byte{}}
		for page.next != nil {
			err := ctx.Err()
			if err == nil {
				err = s.scanPending(&page)
			}
			for _, e := range page.entries {
				if scope != "" && e.id.Scope != scope {
					continue
				}
				// The record may have changed since the index was read.
				r, err := s.readPending(ctx, e)
				switch {
				case errors.Is(err, store.ErrNotFound), err == nil && !e.shows(r):
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
			if err == nil && page.next == nil {
				err = page.nameless
			}
			if err != nil {
				yield(store.Record{}, err)
				return
			}
		}
	}
}

// commitClaims commits the lazy claims that were returned: the file alone has an index of the pending records.
func (s *Store) commitClaims(ctx context.Context) error {
	s.mu.Lock()
	if err := s.usable(); err != nil { // no group is committed any more
		s.mu.Unlock()
		return err
	}
	groups := map[*group]bool{}
	for _, r := range s.overlay {
		if r.lazy != nil && r.lazy.pending() {
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

// readPending returns the record of an index entry.
func (s *Store) readPending(ctx context.Context, e pendingEntry) (store.Record, error) {
	if e.err != nil {
		return store.Record{}, e.err
	}
	r, err := s.Find(ctx, e.id)
	if errors.Is(err, ErrCorrupt) && !errors.Is(err, store.ErrDamaged) && s.ready() == nil {
		err = damaged(e.id, err) // the search for an indexed record met damage
	}
	return r, err
}

// A pendingEntry is an entry of the index of pending records. err is set if its record does not exist.
type pendingEntry struct {
	id      store.ID
	index   []byte // its key in the index
	created int64  // when its record was made; zero if that can't be read
	err     error
}

// shows reports whether the record is the entry's, and still pending. Another may have been made for the same ID.
func (e pendingEntry) shows(r store.Record) bool {
	return r.State == store.StatePending && (e.created == 0 || e.created == envelope.Nanos(r.CreatedAt))
}

// A pendingPage holds the entries that one read transaction takes from the index.
type pendingPage struct {
	entries  []pendingEntry
	next     []byte // the last index key; nil at the end of the list
	until    int64  // the last instant of the list, as it begins; zero before
	nameless error  // the first error of an entry whose ID can't be read, also of the pages before
}

// scanPending reads the next page. An error comes with the entries before it.
func (s *Store) scanPending(page *pendingPage) error {
	last := page.next
	page.entries, page.next = nil, nil
	if err := s.ready(); err != nil {
		return err
	}
	s.mu.Lock()
	now := s.clock.Now()
	s.mu.Unlock()
	err := s.view(func(b buckets) (err error) {
		if page.until == 0 { // before a restart, the clock may have been ahead
			page.until = max(now, lastInstant(b.pending))
		}
		whole := false
		page.next, err = scan(b.pending, last, func(at int64, key []byte) bool {
			if whole = at > page.until; whole {
				return false
			}
			id, err := envelope.ParseKey(key)
			if err != nil {
				page.nameless = cmp.Or(page.nameless, explain(s.path, corrupt("%w", err)))
				return true
			}
			e := pendingEntry{id: id, index: envelope.AppendIndexKey(nil, at, key)}
			v := b.records.Get(key)
			if v == nil {
				e.err = explain(s.path, damaged(id, corrupt("only the index of pending records has it")))
			} else if r, err := decodeHeader(key, v); err == nil {
				if e.created = envelope.Nanos(r.CreatedAt); e.created != at {
					// The entry is damaged. The record may have another one, and so may the one that the entry belongs to.
					err := corrupt("an entry of the index does not match %v", id)
					page.nameless = cmp.Or(page.nameless, explain(s.path, err))
					if b.pending.Get(envelope.AppendIndexKey(nil, e.created, key)) != nil {
						return true
					}
				}
			}
			page.entries = append(page.entries, e)
			return len(page.entries) < scanned
		})
		if whole {
			page.next = nil
		}
		return err
	})
	if err == nil {
		s.addClaimed(page, last)
	}
	return err
}

// lastInstant returns the last instant of an index, or zero.
func lastInstant(b *bbolt.Bucket) int64 {
	k, _ := b.Cursor().Last()
	at, _, _ := envelope.SplitIndexKey(k)
	return at
}

// addClaimed adds the pending records that transactions hold to a page that begins after last. A transaction that has
// just been committed shows in the file before its claim is released. Until then every other call sees the record as
// it was before.
func (s *Store) addClaimed(page *pendingPage, last []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, c := range s.claims {
		if c.before == nil || !c.before.pending() {
			continue
		}
		index := envelope.AppendIndexKey(nil, envelope.Nanos(c.before.CreatedAt), []byte(key))
		if bytes.Compare(index, last) <= 0 || page.next != nil && bytes.Compare(index, page.next) > 0 {
			continue
		}
		at, listed := slices.BinarySearchFunc(page.entries, index, func(e pendingEntry, index []byte) int {
			return bytes.Compare(e.index, index)
		})
		if id, err := envelope.ParseKey([]byte(key)); err == nil && !listed {
			e := pendingEntry{id: id, index: index, created: envelope.Nanos(c.before.CreatedAt)}
			page.entries = slices.Insert(page.entries, at, e)
		}
	}
}

// ready is usable for callers that don't hold the mutex.
func (s *Store) ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.usable()
}

// scan calls f for the index entries after last, in order, until f returns false. next is the last entry that f
// got, or nil if there is none after it.
func scan(b *bbolt.Bucket, last []byte, f func(at int64, key []byte) bool) (next []byte, err error) {
	c := b.Cursor()
	k, _ := c.Seek(last)
	if bytes.Equal(k, last) {
		k, _ = c.Next()
	}
	for ; k != nil; k, _ = c.Next() {
		if bytes.Compare(k, last) <= 0 {
			return nil, corrupt("an index is out of order")
		}
		at, key, err := envelope.SplitIndexKey(k)
		if err != nil {
			return nil, corrupt("%w", err)
		}
		last = bytes.Clone(k)
		if !f(at, key) {
			return last, nil
		}
	}
	return nil, nil
}
