package pebblestore

import (
	"bytes"
	"cmp"
	"context"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"github.com/redo-go/redo/internal/envelope"
	"github.com/redo-go/redo/store"
)

const (
	purgeBatch = 256 // records that a Purge deletes in one group
	freed      = 2   // expired records that a new record deletes
	maxUnread  = 256 // expired records that can't be read and that one group passes
)

// Purge implements [store.Store], with one sync for 256 records and none if nothing has expired. A record that
// can't be read, because it is damaged or of a later release, stays: Purge goes on, and returns the first such error
// with its count.
func (s *Store) Purge(ctx context.Context, limit int) (int, error) {
	if err := cmp.Or(store.ValidatePurge(limit), ctx.Err()); err != nil {
		return 0, err
	}
	var skipped error
	for purged, again := 0, true; ; again = false {
		n, g, err := s.purge(ctx, min(purgeBatch, limit-purged), again)
		if purged += n; err != nil {
			return purged, err
		}
		if skipped == nil {
			skipped = g.skipped
		}
		if !g.more || purged == limit {
			return purged, s.explain(skipped)
		}
	}
}

// purge has the current group delete up to n expired records, and returns their number and the group. With again the
// group also tries what could not be read before.
func (s *Store) purge(ctx context.Context, n int, again bool) (purged int, g *group, err error) {
	s.mu.Lock()
	if err := s.usable(); err != nil {
		s.mu.Unlock()
		return 0, nil, err
	}
	if len(s.overlay) == 0 && s.from(again) > s.clock.Now() {
		s.mu.Unlock()
		return 0, &group{}, nil
	}
	g = s.current
	g.purge += n
	g.again = g.again || again
	g.due = true
	s.mu.Unlock()
	if err := s.join(ctx, g); err != nil {
		return 0, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	purged = min(n, g.purged)
	g.purged -= purged
	return purged, g, nil
}

// from returns the instant at which a search for expired records begins: with again, at the first that could not be
// read.
func (s *Store) from(again bool) int64 {
	if again {
		return min(s.due.Load(), s.unread.Load())
	}
	return s.due.Load()
}

// free deletes up to limit records that have expired, the oldest first. It passes records that can't be read, and
// leaves in due the instant before which no other expires. The search begins there: Pebble keeps deleted entries of the
// index until it compacts, and would pass each of them.
func (s *Store) free(db pebble.Reader, b *pebble.Batch, g *group, limit int) {
	passed, last := 0, int64(0)
	from := s.from(g.again)
	if g.again {
		s.unread.Store(math.MaxInt64)
	}
	due, err := scan(db, expiryPrefix, appendIndexKey(nil, expiryPrefix, from, nil), func(k []byte) (more bool) {
		at, key, err := splitIndexKey(k)
		// The next search begins with all entries of an instant, so this one ends between two instants.
		if err == nil && at > g.now || g.purged == limit || passed >= maxUnread && at > last {
			return false
		}
		last = at
		if err == nil {
			err = freeOne(db, b, at, key)
		}
		if err != nil {
			passed++
			s.unread.Store(min(s.unread.Load(), at))
			if g.skipped == nil {
				g.skipped = err
			}
			return true
		}
		g.purged++
		return true
	})
	switch {
	case err != nil:
		s.unread.Store(min(s.unread.Load(), from))
		if g.skipped == nil {
			g.skipped = err
		}
	case due == nil:
		s.due.Store(math.MaxInt64)
	default:
		at, _, _ := splitIndexKey(due)
		s.due.Store(at)
		g.more = at <= g.now
	}
}

// freeOne deletes the record of an entry of the expiry index. It returns why the entry does not fit its record.
func freeOne(db pebble.Reader, b *pebble.Batch, at int64, key []byte) error {
	r, err := get(db, key)
	switch {
	case err != nil:
		return err
	case r == nil || envelope.Nanos(r.ExpiresAt) != at:
		return named(key, corrupt("the index of expiries does not match"))
	}
	_ = b.Delete(append([]byte{recordsPrefix}, key...), nil)
	move(b, pendingPrefix, key, envelope.Listed(r.Record), 0)
	move(b, expiryPrefix, key, at, 0)
	return nil
}

// scan calls f for the keys with the prefix after last, in order, until f returns false. It returns the key for which f
// did so, or nil.
func scan(db pebble.Reader, prefix byte, last []byte, f func(k []byte) (more bool)) (end []byte, err error) {
	o := &pebble.IterOptions{LowerBound: []byte{prefix}, UpperBound: []byte{prefix + 1}}
	if last != nil {
		o.LowerBound = append(bytes.Clone(last), 0)
	}
	it, err := db.NewIter(o)
	if err != nil {
		return nil, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		if !f(it.Key()) {
			end = bytes.Clone(it.Key())
			break
		}
	}
	if err := it.Close(); err != nil {
		return nil, err
	}
	return end, nil
}
