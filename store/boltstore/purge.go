package boltstore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"

	"github.com/redo-go/redo/internal/envelope"
	"github.com/redo-go/redo/store"
)

// purgeBatch is the number of records that a Purge deletes in one commit.
const purgeBatch = 256

// Purge implements [store.Store], with one commit for 256 records and none if nothing has expired. A record that
// can't be read, because it is damaged or of a later release, stays in the file: Purge goes on, and returns the first
// such error with its count.
func (s *Store) Purge(ctx context.Context, limit int) (int, error) {
	if err := cmp.Or(store.ValidatePurge(limit), ctx.Err()); err != nil {
		return 0, err
	}
	for purged := 0; ; {
		due, err := s.anyExpired()
		if err != nil || !due {
			return purged, err
		}
		batch := min(purgeBatch, limit-purged)
		n, g, err := s.purge(ctx, batch)
		if purged += n; err != nil {
			return purged, err
		}
		if !g.more || purged == limit {
			return purged, explain(s.path, g.skipped)
		}
	}
}

// anyExpired reports whether the index of expiries has an entry that has passed.
func (s *Store) anyExpired() (due bool, err error) {
	s.mu.Lock()
	err = s.usable()
	now := s.clock.Now()
	s.mu.Unlock()
	if err != nil {
		return false, err
	}
	err = s.view(func(b buckets) error {
		k, _ := b.expiry.Cursor().First()
		due = k != nil && bytes.Compare(k, envelope.AppendIndexKey(nil, now+1, nil)) < 0
		return nil
	})
	return due, err
}

// purge has the current group delete up to n expired records, and returns their number and the group.
func (s *Store) purge(ctx context.Context, n int) (purged int, g *group, err error) {
	s.mu.Lock()
	if err := s.usable(); err != nil {
		s.mu.Unlock()
		return 0, nil, err
	}
	g = s.current
	g.purge += n
	g.due = true
	s.mu.Unlock()
	s.signal()
	if err := wait(ctx, g); err != nil {
		return 0, nil, fmt.Errorf("boltstore: %w: %w", err, store.ErrUnknown)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.err != nil {
		return 0, nil, g.err
	}
	purged = min(n, g.purged)
	g.purged -= purged
	return purged, g, nil
}
