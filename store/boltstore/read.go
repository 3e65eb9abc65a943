package boltstore

import (
	"bytes"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/redo-go/redo/internal/envelope"
	"github.com/redo-go/redo/store"
	"go.etcd.io/bbolt"
)

// Names below the root bucket.
var (
	rootName    = []byte("redo")
	formatKey   = []byte("format")
	stateKey    = []byte("state")
	recordsName = []byte("records")
	pendingName = []byte("pending")
	expiryName  = []byte("expiry")
)

// buckets holds the Store's buckets in a transaction.
type buckets struct{ root, records, pending, expiry *bbolt.Bucket }

func open(tx *bbolt.Tx) (buckets, error) {
	root := tx.Bucket(rootName)
	if root == nil {
		return buckets{}, corrupt("the root bucket is gone")
	}
	b := buckets{root, root.Bucket(recordsName), root.Bucket(pendingName), root.Bucket(expiryName)}
	if b.records == nil || b.pending == nil || b.expiry == nil {
		return buckets{}, corrupt("a bucket is gone")
	}
	return b, nil
}

// guarded turns a panic in f into an error. bbolt trusts its file: a damaged page makes it panic, or read outside the
// mapping. SetPanicOnFault turns that fault into a panic, in this goroutine while f runs.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = corrupt("a page can't be read, because the file is damaged or cut short: %v", p)
		}
	}()
	return f()
}

// view runs f in a read transaction. The slices that f reads are valid only inside.
func (s *Store) view(f func(buckets) error) error {
	err := guarded(func() (err error) {
		tx, err := s.db.Begin(false)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, tx.Rollback()) }()
		b, err := open(tx)
		if err != nil {
			return err
		}
		return f(b)
	})
	return explain(s.path, err)
}

// explain names the file in an error, which wraps ErrUnavailable because nothing was changed.
func explain(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrCorrupt), errors.Is(err, ErrFormat):
		return fmt.Errorf("%w (in %q): %w", err, path, store.ErrUnavailable)
	default:
		return fmt.Errorf("boltstore: %q: %w: %w", path, err, store.ErrUnavailable)
	}
}

// read returns the record that the file has under key, or nil. A lease of an earlier Open is void, because its owner
// died. So Open need not rewrite these records.
func (s *Store) read(key []byte) (r *record, err error) {
	err = s.view(func(b buckets) error {
		r, err = lookup(b.records, key)
		return err
	})
	if err == nil && r != nil && r.epoch != s.epoch {
		r.LeaseUntil = time.Time{}
	}
	return r, err
}

// lookup finds and decodes a record. bbolt's pages have no checksums, so a damaged key could make a record seem
// absent, and an absent record is run again. A search ends between two keys that it has compared. The record is
// absent only if these are in order and their records sound.
func lookup(b *bbolt.Bucket, key []byte) (*record, error) {
	c := b.Cursor()
	k, v := c.Seek(key)
	if k != nil && bytes.Equal(k, key) {
		r, err := decodeRecord(key, v)
		return r, named(key, err)
	}
	if err := soundNeighbour(k, v, bytes.Compare(k, key) > 0); err != nil {
		return nil, err
	}
	if k != nil {
		k, v = c.Prev()
	} else {
		k, v = c.Last()
	}
	return nil, soundNeighbour(k, v, bytes.Compare(k, key) < 0)
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
	case errors.Is(err, ErrFormat):
		return fmt.Errorf("the record of %v: %w", id, err)
	}
	return damaged(id, err)
}

func damaged(id store.ID, err error) error {
	return fmt.Errorf("the record of %v: %w: %w", id, store.ErrDamaged, err)
}

// soundNeighbour checks a record next to a missing one. A nil key means that there is none. Its error does not wrap
// ErrDamaged, because it is not about the ID of the call.
func soundNeighbour(k, v []byte, inOrder bool) error {
	if k == nil {
		return nil
	}
	if !inOrder {
		return corrupt("records are out of order")
	}
	err := sound(k, v)
	if err == nil {
		return nil
	}
	if id, unnamed := envelope.ParseKey(k); unnamed == nil {
		return fmt.Errorf("the record of %v is next to it and may be it, under a damaged key: drop that first: %w", id, err)
	}
	return fmt.Errorf("the record next to it has the damaged key %q: %w", k, err)
}
