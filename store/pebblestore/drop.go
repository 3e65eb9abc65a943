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

// Drop implements [store.Dropper]. It removes a damaged record and the index entries of its ID in one write. It reads
// the indexes from end to end, since a damaged record does not show its place in them. An ID that exists only in an
// index is damaged too.
func (s *Store) Drop(ctx context.Context, id store.ID) error {
	key := envelope.AppendKey(nil, id)
	for {
		s.mu.Lock()
		turns := s.recent.turns
		s.mu.Unlock()
		_, err := s.Find(ctx, id)
		absent := errors.Is(err, store.ErrNotFound)
		switch {
		case err == nil:
			return notDamaged(id)
		case !absent && !errors.Is(err, ErrCorrupt):
			return err
		}
		switch expired, err := s.read(key); {
		case expired != nil:
			return notDamaged(id)
		case err != nil && !errors.Is(err, ErrCorrupt):
			return err
		}
		entries, scanErr := s.entries(key)
		if scanErr != nil {
			return scanErr
		}
		if absent && len(entries) == 0 {
			return err
		}
		g, first := s.drop(key, entries, turns, absent)
		if first {
			return s.join(ctx, g)
		}
		if g != nil {
			if err := wait(ctx, g); err != nil {
				return err
			}
		}
	}
}

func notDamaged(id store.ID) error {
	return fmt.Errorf("pebblestore: %w: the record of %v is not damaged", store.ErrInvalid, id)
}

// drop makes the removal part of the current group. first is false if another call has changed the ID since turns was
// read. Then g is that call's group, or nil if it is settled. first is also false if the store can't be used any more.
func (s *Store) drop(key []byte, entries [][]byte, turns uint64, absent bool) (g *group, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.usable() != nil {
		return nil, false
	}
	if r := s.overlay[string(key)]; r != nil {
		return r.in, false
	}
	r, ok := s.recent.get(key)
	if turns != s.recent.turns || ok && (alive(r, time.Unix(0, s.clock.Now())) != nil || !absent) {
		return nil, false
	}
	g = s.put(key, nil, nil, false)
	s.overlay[string(key)].drop = entries
	return g, true
}

// entries returns the index entries of the record with the key.
func (s *Store) entries(key []byte) (found [][]byte, err error) {
	err = s.view(func(db *pebble.DB) error {
		for _, prefix := range []byte{pendingPrefix, expiryPrefix} {
			_, err := scan(db, prefix, nil, func(k []byte) bool {
				if len(k) > indexSize && bytes.Equal(k[indexSize:], key) {
					found = append(found, bytes.Clone(k))
				}
				return true
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return found, err
}
