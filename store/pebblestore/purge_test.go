package pebblestore

import (
	"fmt"
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

// A countingReader counts the entries that a search of the index passes, deleted ones too.
type countingReader struct {
	pebble.Reader
	steps int
}

func (r *countingReader) NewIter(o *pebble.IterOptions) (*pebble.Iterator, error) {
	it, err := r.Reader.NewIter(o)
	if err != nil {
		return nil, err
	}
	it.First()
	stats := it.Stats()
	r.steps += stats.ForwardSeekCount[pebble.InternalIterCall] + stats.ForwardStepCount[pebble.InternalIterCall]
	return it, nil
}
