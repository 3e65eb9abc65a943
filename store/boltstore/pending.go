package boltstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/redo-go/redo/store"
	"go.etcd.io/bbolt"
)

// scanned is how many index entries one read transaction takes: an open one keeps the file from growing.
const scanned = 256

// Pending implements [store.Lister]. Its cost grows with the number of pending records, not with the file.
// Records that were reserved at the same instant come in the order of their keys. An index entry that is damaged names
// no record: its error comes last.
func (s *Store) Pending(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		var last []byte
		var nameless error
		for {
			if err := ctx.Err(); err != nil {
				yield(store.Record{}, err)
				return
			}
			page, err := s.scanPending(last)
			for _, e := range page.entries {
				if scope != "" && e.id.Scope != scope {
					continue
				}
				// The index names the records to read; what the store holds now may be newer than it.
				r, err := s.readPending(ctx, e)
				switch {
				case errors.Is(err, store.ErrNotFound), err == nil && r.State != store.StatePending:
					continue
				case err != nil && !names(err):
					yield(store.Record{}, err)
					return
				case err != nil:
					r = store.Record{ID: e.id}
				}
				if !yield(r, err) {
					return
				}
			}
			if nameless == nil {
				nameless = page.nameless
			}
			if err == nil && page.next == nil {
				err = nameless
			}
			if err != nil {
				yield(store.Record{}, err)
				return
			}
			if page.next == nil {
				return
			}
			last = page.next
		}
	}
}

// readPending returns the record of an index entry. names holds for an error that is about this record alone.
func (s *Store) readPending(ctx context.Context, e pendingEntry) (store.Record, error) {
	if e.err != nil {
		return store.Record{}, e.err
	}
	r, err := s.Find(ctx, e.id)
	if errors.Is(err, ErrCorrupt) && !errors.Is(err, store.ErrDamaged) && s.ready() == nil {
		// The index has the record, and the search for it met damage.
		err = damaged(e.id, err)
	}
	return r, err
}

// names reports whether the error is about one record: a damaged one, or one of a later release.
func names(err error) bool {
	return errors.Is(err, store.ErrDamaged) || errors.Is(err, ErrFormat) || errors.Is(err, errIndex)
}

// A pendingEntry is an entry of the index of pending records. err is set if it does not fit the records.
type pendingEntry struct {
	id  store.ID
	err error
}

// A pendingPage holds what one read transaction takes from the index. At the end of the index, next is nil.
// nameless is the first error of an entry whose ID can't be read.
type pendingPage struct {
	entries  []pendingEntry
	next     []byte
	nameless error
}

// scanPending reads the entries after an index key. With an error come the entries before it.
func (s *Store) scanPending(last []byte) (page pendingPage, err error) {
	if err := s.ready(); err != nil {
		return page, err
	}
	err = s.view(func(b buckets) error {
		page.next, err = scan(b.pending, last, func(at int64, key []byte) (bool, error) {
			id, err := parseKey(key)
			if err != nil {
				if page.nameless == nil {
					page.nameless = explain(s.path, err)
				}
				return true, nil
			}
			page.entries = append(page.entries, pendingEntry{id, explain(s.path, misfit(b, id, at, key))})
			return len(page.entries) < scanned, nil
		})
		return err
	})
	return page, err
}

// errIndex: an entry of an index does not fit its record, which can be read.
var errIndex = fmt.Errorf("%w: the index of pending records does not match", ErrCorrupt)

// misfit returns how an index entry contradicts the records. A record that can't be read does not: Find has its error.
func misfit(b buckets, id store.ID, at int64, key []byte) error {
	v := b.records.Get(key)
	if v == nil {
		return damaged(id, corrupt("it is in the index of pending records and nowhere else"))
	}
	r, err := decodeHeader(key, v)
	if err == nil && (!r.pending() || r.created != at) {
		return fmt.Errorf("%w the record of %v", errIndex, id)
	}
	return nil
}

// ready is usable for those who don't hold the mutex.
func (s *Store) ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.usable()
}

// scan calls f for the index entries after last, in order, until f returns false. next is the last entry that f
// got, nil when there is none after it.
func scan(b *bbolt.Bucket, last []byte, f func(at int64, key []byte) (bool, error)) (next []byte, err error) {
	c := b.Cursor()
	k, _ := c.First()
	if last != nil {
		if k, _ = c.Seek(last); bytes.Equal(k, last) {
			k, _ = c.Next()
		}
	}
	for k != nil {
		if bytes.Compare(k, last) <= 0 {
			return nil, corrupt("an index is out of order")
		}
		at, key, err := splitIndexKey(k)
		if err != nil {
			return nil, err
		}
		more, err := f(at, key)
		if err != nil {
			return nil, err
		}
		last = bytes.Clone(k)
		if !more {
			return last, nil
		}
		k, _ = c.Next()
	}
	return nil, nil
}
