package boltstore

import (
	"bytes"
	"context"
	"errors"
	"iter"

	"github.com/redo-go/redo/store"
	"go.etcd.io/bbolt"
)

// scanned is how many index entries one read transaction takes: an open one keeps the file from growing.
const scanned = 256

// Pending implements [store.Lister]. Its cost grows with the number of pending records, not with the file.
// Records that were reserved at the same instant come in the order of their keys.
func (s *Store) Pending(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		var last []byte
		for {
			if err := ctx.Err(); err != nil {
				yield(store.Record{}, err)
				return
			}
			ids, next, err := s.scanPending(last)
			for _, id := range ids {
				if scope != "" && id.Scope != scope {
					continue
				}
				// The index tells which records to look at; what stands now may be newer than it.
				r, err := s.Find(ctx, id)
				switch {
				case errors.Is(err, store.ErrNotFound), err == nil && r.State != store.StatePending:
					continue
				case err != nil:
					yield(store.Record{}, err)
					return
				}
				if !yield(r, nil) {
					return
				}
			}
			if err != nil {
				yield(store.Record{}, err)
				return
			}
			if next == nil {
				return
			}
			last = next
		}
	}
}

// scanPending reads the IDs after an index key. next is nil at the end. With an error come the IDs before it.
func (s *Store) scanPending(last []byte) (ids []store.ID, next []byte, err error) {
	if err := s.ready(); err != nil {
		return nil, nil, err
	}
	err = s.view(func(b buckets) error {
		next, err = scan(b.pending, last, func(at int64, key []byte) (bool, error) {
			id, err := parseKey(key)
			if err != nil {
				return false, err
			}
			v := b.records.Get(key)
			r, err := decodeHeader(key, v)
			if errors.Is(err, ErrFormat) {
				return true, nil // Find says so, with the ID at hand
			}
			if err != nil || !r.pending() || r.created != at {
				return false, corrupt("the index of pending records does not match the record %v", id)
			}
			ids = append(ids, id)
			return len(ids) < scanned, nil
		})
		return err
	})
	return ids, next, err
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
