package pebblestore

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/fakeclock"
	"github.com/redo-go/redo/store"
)

func TestPurge(t *testing.T) {
	fake := fakeclock.At(time.Now().UnixNano())
	s := mustOpen(t, tempDir(t), withClock(fake.Read))
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		c := claim(key)
		c.Lease, c.Retention = 0, time.Minute
		mustReserve(t, s, c, store.Acquired)
	}
	fake.Wall.Add(int64(time.Hour))
	mustReserve(t, s, claim("new"), store.Acquired) // deletes two
	n, err := s.Purge(t.Context(), 2)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	n, err = s.Purge(t.Context(), 2)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, []string{"new"}, pendingKeys(t, s, ""))
	mustSettle(t, s, "lasting", store.Outcome{Retention: store.Forever}) // it is in neither index
	require.NoError(t, s.Verify(t.Context()))
}

func TestPurgeSeesTheExpiryOfALazyOutcome(t *testing.T) {
	fake := fakeclock.At(time.Now().UnixNano())
	s := mustOpen(t, tempDir(t), withClock(fake.Read), WithLazyDelay(time.Hour))
	c := claim("k")
	c.Retention = store.Forever
	g := mustReserve(t, s, c, store.Acquired)
	n, err := s.Purge(t.Context(), 10)
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, s.Complete(t.Context(), g.Lease, store.Outcome{Lazy: true, Retention: time.Minute}))
	fake.Wall.Add(int64(time.Hour))
	n, err = s.Purge(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

// Pebble keeps a deleted entry of the index until it compacts, and a search that begins before such entries passes each
// of them.
func TestSearchForExpiredRecordsPassesNoDeletedOnes(t *testing.T) {
	fake := fakeclock.At(time.Now().UnixNano())
	s := mustOpen(t, tempDir(t), withClock(fake.Read))
	const n = 500
	for i := range n {
		c := claim(fmt.Sprint(i))
		c.Lease, c.Retention = 0, time.Minute
		mustReserve(t, s, c, store.Acquired)
	}
	fake.Wall.Add(int64(time.Hour))
	purged, err := s.Purge(t.Context(), n)
	require.NoError(t, err)
	require.Equal(t, n, purged)
	for _, key := range []string{"first", "second"} {
		c := claim(key)
		c.Lease, c.Retention = 0, time.Minute
		mustReserve(t, s, c, store.Acquired)
	}
	fake.Wall.Add(int64(time.Hour))
	db := &countingReader{Reader: s.db}
	s.free(db, s.db.NewBatch(), &group{now: s.clock.Now()}, 1)
	require.Less(t, db.steps, 10)
	require.Positive(t, db.steps)

	purged, err = s.Purge(t.Context(), n)
	require.NoError(t, err)
	require.Equal(t, 2, purged, "the search passes no record that is there")
}

// New records look past a record that can't be read only once. A Purge reports it each time.
func TestUnreadableRecordIsPassedOnce(t *testing.T) {
	fake := fakeclock.At(time.Now().UnixNano())
	dir := tempDir(t)
	s := mustOpen(t, dir, withClock(fake.Read))
	expire := func(key string) {
		c := claim(key)
		c.Lease, c.Retention = 0, time.Minute
		mustReserve(t, s, c, store.Acquired)
	}
	expire("damaged")
	require.NoError(t, s.Close())
	s = mustOpen(t, dir, withClock(fake.Read))
	damage(t, s, "damaged")
	fake.Wall.Add(1)
	const n = 100
	for i := range n {
		expire(fmt.Sprint(i))
	}
	fake.Wall.Add(int64(time.Hour))
	for range 2 {
		_, err := s.Purge(t.Context(), n)
		require.ErrorIs(t, err, ErrCorrupt)
	}

	expire("next")
	fake.Wall.Add(int64(time.Hour))
	db := &countingReader{Reader: s.db}
	g := &group{now: s.clock.Now()}
	s.free(db, s.db.NewBatch(), g, 1)
	require.Equal(t, 1, g.purged)
	require.Less(t, db.steps, 10)

	g = &group{now: s.clock.Now(), purge: 1, again: true}
	s.free(s.db, s.db.NewBatch(), g, 1)
	require.ErrorIs(t, g.skipped, ErrCorrupt, "a Purge tries again")
	again, err := s.Purge(t.Context(), n)
	require.ErrorIs(t, err, ErrCorrupt)
	require.LessOrEqual(t, again, 1)
	require.NoError(t, s.Drop(t.Context(), claim("damaged").ID))
	_, err = s.Purge(t.Context(), n)
	require.NoError(t, err)
	before := s.groups
	_, err = s.Purge(t.Context(), n)
	require.NoError(t, err)
	require.Equal(t, before, s.groups, "nothing is left to try")
	require.NoError(t, s.Verify(t.Context()))
}

// A record has expired at the instant of its expiry, and not before.
func TestARecordIsDeletedAtItsExpiry(t *testing.T) {
	fake := fakeclock.At(time.Now().UnixNano())
	s := mustOpen(t, tempDir(t), withClock(fake.Read))
	expiring := func(key string) {
		c := claim(key)
		c.Lease, c.Retention = 0, time.Minute
		mustReserve(t, s, c, store.Acquired)
	}
	purges := func(want int) {
		t.Helper()
		n, err := s.Purge(t.Context(), 10)
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	expiring("a")
	fake.Wall.Add(int64(time.Minute) - 1)
	expiring("later")
	purges(0)
	fake.Wall.Add(1)
	purges(1)
	fake.Wall.Add(int64(time.Minute) - 1)
	mustReserve(t, s, claim("new"), store.Acquired) // it deletes up to two
	purges(0)
}

// A later release may have left more records than one group passes. The records behind them expire too.
func TestPurgePassesManyUnreadableRecords(t *testing.T) {
	for name, step := range map[string]int64{"one after the other": 1, "of one instant": 0} {
		t.Run(name, func(t *testing.T) {
			fake := fakeclock.At(time.Now().UnixNano())
			s := mustOpen(t, tempDir(t), withClock(fake.Read))
			const unreadable = 2*maxUnread + 1
			for i := range unreadable + 2 {
				key := fmt.Sprint(i)
				c := claim(key)
				c.Lease, c.Retention = 0, time.Minute
				mustReserve(t, s, c, store.Acquired)
				if i > 0 && i <= unreadable {
					damage(t, s, key)
				}
				fake.Wall.Add(step)
			}
			fake.Wall.Add(int64(time.Hour))
			for _, want := range []int{2, 0} {
				n, err := s.Purge(t.Context(), 100)
				require.ErrorIs(t, err, ErrCorrupt)
				require.Equal(t, want, n)
			}
		})
	}
}

// A group that passed all unreadable records would hold up the changes that wait behind it.
func TestAGroupPassesABoundedNumberOfUnreadableRecords(t *testing.T) {
	s := mustOpen(t, tempDir(t))
	for at := range int64(maxUnread + 1) {
		require.NoError(t, s.db.Set(appendIndexKey(nil, expiryPrefix, at+1, []byte("none")), nil, pebble.NoSync))
	}
	s.due.Store(0)
	b, g := s.db.NewBatch(), newGroup()
	g.now = math.MaxInt64
	s.free(s.db, b, g, 1)
	require.NoError(t, b.Close())
	require.True(t, g.more)
	require.EqualValues(t, maxUnread+1, s.due.Load(), "the search goes on there")
	require.ErrorIs(t, g.skipped, ErrCorrupt)
}

func TestPurgeReportsADamagedTableAsDamage(t *testing.T) {
	s := mustOpen(t, tempDir(t))
	b, g := s.db.NewBatch(), newGroup()
	g.again = true
	s.due.Store(9)
	s.unread.Store(5)
	s.free(damagedTable{}, b, g, 1)
	require.NoError(t, b.Close())
	require.EqualValues(t, 5, s.unread.Load(), "the next Purge tries it too")
	require.ErrorIs(t, s.explain(g.skipped), ErrCorrupt)
	require.ErrorIs(t, s.explain(g.skipped), store.ErrUnavailable)
}

func TestAPurgeWhoseContextEndsDuringItsSyncIsUnknown(t *testing.T) {
	cfg, err := newConfig(nil)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	n, err := newStore("x", nil, cfg).Purge(awaited{ctx, cancel}, 1) // nothing writes its group
	require.ErrorIs(t, err, store.ErrUnknown)
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, n)
}

// Two Purges may have one group delete records. Each record is counted once.
func TestPurgesOfOneGroupShareItsCount(t *testing.T) {
	cfg, err := newConfig(nil)
	require.NoError(t, err)
	s := newStore("x", nil, cfg) // nothing writes its group
	counts := make(chan int, 2)
	for range cap(counts) {
		go func() {
			n, _, _ := s.purge(t.Context(), 2, false)
			counts <- n
		}()
	}
	g := s.current
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return g.purge == 4
	}, time.Minute, time.Millisecond)
	g.purged = 3
	close(g.done)
	require.ElementsMatch(t, []int{2, 1}, []int{<-counts, <-counts})
}

type damagedTable struct{ pebble.Reader }

func (damagedTable) NewIter(*pebble.IterOptions) (*pebble.Iterator, error) {
	return nil, pebble.ErrCorruption
}

// A countingReader counts the entries from the begin of a search of the index to its end, deleted ones too.
type countingReader struct {
	pebble.Reader
	steps int
}

func (r *countingReader) NewIter(o *pebble.IterOptions) (*pebble.Iterator, error) {
	it, err := r.Reader.NewIter(o)
	if err != nil {
		return nil, err
	}
	for ok := it.First(); ok; ok = it.Next() {
	}
	stats := it.Stats()
	r.steps += stats.ForwardSeekCount[pebble.InternalIterCall] + stats.ForwardStepCount[pebble.InternalIterCall]
	return it, nil
}
