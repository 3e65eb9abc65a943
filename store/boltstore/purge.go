package boltstore

import (
	"context"
	"fmt"
	"time"

	"github.com/redo-go/redo/store"
)

// purgeBatch is how many records a Purge deletes in one group.
const purgeBatch = 256

// Purge implements [store.Store], in groups of at most 256 records. A record that can't be read, damaged or
// of a later release, is left where it is: Purge goes on and returns the first such error with its count.
func (s *Store) Purge(ctx context.Context, limit int) (int, error) {
	if limit < 1 {
		return 0, fmt.Errorf("boltstore: %w: the limit is %d, it must be positive", store.ErrInvalid, limit)
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	var purged int
	var last []byte
	var first error
	for purged < limit {
		keys, next, err := s.scanExpired(last, min(purgeBatch, limit-purged))
		if err != nil {
			return purged, err
		}
		n, skipped, err := s.purge(ctx, keys)
		purged += n
		if first == nil {
			first = skipped
		}
		if err != nil {
			return purged, err
		}
		if next == nil {
			break
		}
		last = next
	}
	return purged, first
}

// scanExpired reads the keys of at most n expired records after an index key; next is nil at the end of them.
func (s *Store) scanExpired(last []byte, n int) (keys [][]byte, next []byte, err error) {
	s.mu.Lock()
	err = s.usable()
	now := s.clock.now()
	s.mu.Unlock()
	if err != nil {
		return nil, nil, err
	}
	due := true
	err = s.view(func(b buckets) error {
		next, err = scan(b.expiry, last, func(at int64, key []byte) (bool, error) {
			if due = at <= now; !due {
				return false, nil
			}
			keys = append(keys, append([]byte(nil), key...))
			return len(keys) < n, nil
		})
		return err
	})
	if !due {
		next = nil
	}
	return keys, next, err
}

// purge removes those of the records that are still expired, in one group unless another caller's commit comes
// between. skipped is the first record's error, err the store's.
func (s *Store) purge(ctx context.Context, keys [][]byte) (n int, skipped, err error) {
	joined := make(map[*group]int)
	for _, key := range keys {
		cur, c, err := s.lock(ctx, key)
		if err != nil {
			if ready := s.ready(); ready != nil {
				return 0, skipped, ready
			}
			if ctx.Err() != nil {
				return 0, skipped, ctx.Err()
			}
			if skipped == nil {
				skipped = err
			}
			continue
		}
		now := s.clock.now()
		// A record that changed and is not committed yet, or is held, is somebody's at work: the next Purge sees it.
		if c == nil && s.held[string(key)] == nil && cur != nil && alive(cur, now) == nil {
			joined[s.put(key, nil, false)]++
		}
		s.mu.Unlock()
	}
	for g, k := range joined {
		s.mu.Lock()
		g.due = true
		s.mu.Unlock()
		s.signal()
		if werr := wait(ctx, g); werr != nil {
			return n, skipped, fmt.Errorf("boltstore: %w: %w", werr, store.ErrUnknown)
		}
		switch {
		case g.err != nil:
			err = g.err
		case !g.discarded:
			n += k
		}
	}
	return n, skipped, err
}

// PurgeEvery is [store.PurgeEvery] for this store. It also ends when the store is closed, with the error that any
// other method then returns.
func (s *Store) PurgeEvery(ctx context.Context, interval time.Duration, observe func(purged int, err error)) error {
	open, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-s.stopped:
			cancel()
		case <-open.Done():
		}
	}()
	err := store.PurgeEvery(open, s, interval, observe)
	if open.Err() != nil && ctx.Err() == nil {
		return s.ready()
	}
	return err
}
