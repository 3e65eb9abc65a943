package boltstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/redo-go/redo/store"
	"go.etcd.io/bbolt"
)

// Drop implements [store.Dropper]. It removes a damaged record and the index entries of its ID in one transaction. It
// reads the indexes from end to end, since a damaged record does not show its place in them. An ID that only an index
// holds is damaged too. Like [Store.Update], Drop waits for earlier writers of the file.
func (s *Store) Drop(ctx context.Context, id store.ID) error {
	switch _, err := s.Find(ctx, id); {
	case err == nil:
		return fmt.Errorf("boltstore: %w: the record of %v is not damaged", store.ErrInvalid, id)
	case !errors.Is(err, store.ErrNotFound) && !errors.Is(err, ErrCorrupt):
		return err
	}
	key := appendKey(nil, id)
	err := s.Update(ctx, func(tx *bbolt.Tx) error {
		err := guarded(func() error {
			b, err := open(tx)
			if err != nil {
				return err
			}
			return dropFrom(b, id, key)
		})
		if errors.Is(err, store.ErrInvalid) || errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("boltstore: %w", err)
		}
		return explain(s.path, err)
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notify(string(key))
	return nil
}

// dropFrom removes the damaged record under key and its index entries. The record is judged again: another caller may
// have dropped it and reserved the ID since.
func dropFrom(b buckets, id store.ID, key []byte) error {
	v := b.records.Get(key)
	if v != nil {
		switch _, err := decodeRecord(key, v); {
		case err == nil:
			return fmt.Errorf("%w: the record of %v is not damaged", store.ErrInvalid, id)
		case errors.Is(err, ErrFormat):
			return named(key, err)
		}
		if err := b.records.Delete(key); err != nil {
			return err
		}
	}
	entries := 0
	for _, index := range []*bbolt.Bucket{b.pending, b.expiry} {
		n, err := dropEntries(index, key)
		if err != nil {
			return err
		}
		entries += n
	}
	if v == nil && entries == 0 {
		if _, err := lookUp(b.records, key); err != nil {
			return err
		}
		return store.ErrNotFound
	}
	return nil
}

// dropEntries removes the entries of a record's key from an index and returns their number.
func dropEntries(index *bbolt.Bucket, key []byte) (int, error) {
	var found [][]byte
	c := index.Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		if len(k) == instantSize+len(key) && bytes.Equal(k[instantSize:], key) {
			found = append(found, bytes.Clone(k))
		}
	}
	for _, k := range found {
		if err := index.Delete(k); err != nil {
			return 0, err
		}
	}
	return len(found), nil
}
