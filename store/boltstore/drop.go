package boltstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/redo-go/redo/internal/envelope"
	"github.com/redo-go/redo/store"
	"go.etcd.io/bbolt"
)

// Drop implements [store.Dropper]. It removes a damaged record and the index entries of its ID in one transaction. It
// reads the indexes from end to end, since a damaged record does not show its place in them. An ID that exists only
// in an index is damaged too. Like [Store.Update], Drop waits for earlier writers of the file.
func (s *Store) Drop(ctx context.Context, id store.ID) error {
	switch _, err := s.Find(ctx, id); {
	case err == nil:
		return fmt.Errorf("boltstore: %w: the record of %v is not damaged", store.ErrInvalid, id)
	case !errors.Is(err, store.ErrNotFound) && !errors.Is(err, ErrCorrupt):
		return err
	}
	key := envelope.AppendKey(nil, id)
	err := s.Update(ctx, func(tx *Tx) error {
		s.draft.reread()
		err := guarded(func() error { return drop(tx.tx, id, key) })
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

// drop removes the damaged record under key and its index entries. It judges the record again, because another
// caller may have dropped it and reserved the ID since.
func drop(tx *bbolt.Tx, id store.ID, key []byte) error {
	b, err := open(tx)
	if err != nil {
		return err
	}
	v := b.records.Get(key)
	dropped := v != nil
	if dropped {
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
	for _, index := range []*bbolt.Bucket{b.pending, b.expiry} {
		c := index.Cursor()
		for k, _ := c.First(); k != nil; {
			if len(k) != envelope.InstantSize+len(key) || !bytes.Equal(k[envelope.InstantSize:], key) {
				k, _ = c.Next()
				continue
			}
			dropped = true
			next := bytes.Clone(k)
			if err := c.Delete(); err != nil {
				return err
			}
			k, _ = c.Seek(next)
		}
	}
	if dropped {
		return nil
	}
	if _, err := lookup(b.records, key); err != nil {
		return err
	}
	return store.ErrNotFound
}
