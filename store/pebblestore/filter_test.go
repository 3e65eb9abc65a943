package pebblestore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/envelope"
	"github.com/redo-go/redo/internal/fakeclock"
	"github.com/redo-go/redo/internal/hangtest"
	"github.com/redo-go/redo/store"
)

func TestFilterLacksNoKeyThatWasAdded(t *testing.T) {
	f := newFilter()
	key := func(i int) []byte { return fmt.Appendf(nil, "key-%d", i) }
	const n = firstPart*blockKeys + 10_000 // in two parts
	for i := range n {
		f.add(key(i))
	}
	require.Len(t, f.parts, 2)
	second := len(f.parts[1])
	require.Equal(t, 2*firstPart, second, "each part is a look for every key")
	seen := 0
	for i := range n {
		require.False(t, f.lacks(key(i)))
		if !f.lacks(key(n + i)) {
			seen++
		}
	}
	require.Less(t, seen, n/50, "the filter lacks too few absent keys to save reads")
	require.False(t, (*filter)(nil).lacks(key(n)), "no filter knows nothing")
}

// A record that expired is known to recent, and not to a filter that was made after the purge.
func TestFilterHasTheRecordThatFollowsAPurgedOne(t *testing.T) {
	fake := fakeclock.At(time.Now().UnixNano())
	s := mustOpen(t, tempDir(t), withClock(fake.Read))
	c := claim("k")
	c.Lease, c.Retention = 0, time.Minute
	mustReserve(t, s, c, store.Acquired)
	fake.Wall.Add(int64(time.Hour))
	n, err := s.Purge(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	key := envelope.AppendKey(nil, c.ID)
	refill(s)
	require.True(t, s.filter.lacks(key))
	mustReserve(t, s, c, store.Acquired)
	require.False(t, s.filter.lacks(key))
	refill(s)
	require.False(t, s.filter.lacks(key))
}

func TestFilterHasARecordThatPebbleHasNot(t *testing.T) {
	s := mustOpen(t, tempDir(t), WithLazyDelay(time.Hour))
	key := envelope.AppendKey(nil, claim("k").ID)
	s.mu.Lock()
	s.put(key, nil, &record{Record: store.Record{State: store.StatePending, CreatedAt: time.Unix(1, 0)}}, true)
	s.mu.Unlock()
	refill(s)
	require.False(t, s.filter.lacks(key))
	require.True(t, s.filter.lacks(envelope.AppendKey(nil, claim("absent").ID)))
}

// refill makes the filter anew, after the one that Open makes.
func refill(s *Store) {
	s.helpers.Wait()
	s.helpers.Add(1)
	s.refilter(s.ctx)
}

func TestFilterOfAReopenedStoreHasItsRecords(t *testing.T) {
	path := tempDir(t)
	s := mustOpen(t, path)
	for i := range 10 {
		mustSettle(t, s, fmt.Sprint(i), store.Outcome{})
	}
	require.NoError(t, s.Close())
	s = mustOpen(t, path)
	s.helpers.Wait()
	require.True(t, s.filter.lacks(envelope.AppendKey(nil, claim("absent").ID)))
	for i := range 10 {
		mustReserve(t, s, claim(fmt.Sprint(i)), store.Complete)
	}
	mustReserve(t, s, claim("absent"), store.Acquired)
}

func TestFilterIsMadeAnewWhenHalfOfItsKeysMayBeDeleted(t *testing.T) {
	s := mustOpen(t, tempDir(t))
	s.helpers.Wait()
	first := s.filter
	s.filterMax = 8
	for i := range 12 {
		l := mustReserve(t, s, claim(fmt.Sprint(i)), store.Acquired).Lease
		require.NoError(t, s.Release(t.Context(), l))
	}
	s.helpers.Wait()
	require.NotSame(t, first, s.filter)
	require.Less(t, s.filter.keys, 12)

	second := s.filter
	mustReserve(t, s, claim("next"), store.Acquired)
	s.helpers.Wait()
	require.Same(t, second, s.filter, "a new filter lasts for its first part at least")
}

// It would otherwise grow for good, without a use.
func TestAFilterThatCouldNotBeMadeTakesNoKeys(t *testing.T) {
	s := mustOpen(t, tempDir(t))
	s.helpers.Wait()
	before := s.filter
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.helpers.Add(1)
	s.refilter(ctx)
	require.Nil(t, s.nextFilter)
	require.Same(t, before, s.filter)
	mustReserve(t, s, claim("k"), store.Acquired)
	require.False(t, s.filter.lacks(envelope.AppendKey(nil, claim("k").ID)))
}

// It would lack keys of records, which would be made anew.
func TestAFilterOfKeysThatCannotBeReadIsNotUsed(t *testing.T) {
	s := mustOpen(t, tempDir(t))
	s.helpers.Wait()
	before := s.filter
	db := s.db
	s.db = nil
	require.NoError(t, hangtest.Within(t, func() error {
		refill(s)
		return nil
	}))
	require.Same(t, before, s.filter)
	require.Nil(t, s.nextFilter)

	s.mu.Lock()
	s.filterMax = 0
	s.added([]byte("first"))
	s.mu.Unlock()
	s.helpers.Wait()
	require.Equal(t, 2, s.filterMax, "it is not tried again before that number of keys")
	s.db = db
}

func TestAFilterIsNotMadeAnewInClose(t *testing.T) {
	s := mustOpen(t, tempDir(t))
	s.helpers.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.filterMax, s.closing = 0, true
	s.added([]byte("k"))
	require.Zero(t, s.filterMax)
	s.closing = false
}

func TestAFilterIsKeptForTwiceItsKeys(t *testing.T) {
	s := mustOpen(t, tempDir(t))
	for i := range 3 {
		mustReserve(t, s, claim(fmt.Sprint(i)), store.Acquired)
	}
	refill(s)
	require.Equal(t, 2*3+1<<20, s.filterMax)
}

// An open iterator keeps files that Pebble has compacted.
func TestTheKeysOfAFilterAreReadInPages(t *testing.T) {
	s := mustOpen(t, tempDir(t))
	s.helpers.Wait()
	b := s.db.NewBatch()
	for i := range keysScanned + 1 {
		require.NoError(t, b.Set(fmt.Appendf([]byte{recordsPrefix}, "%06d", i), []byte("a record"), nil))
	}
	require.NoError(t, b.Commit(pebble.NoSync))
	var page keyPage
	require.NoError(t, s.scanKeys(&page))
	require.Len(t, page.keys, keysScanned)
	require.True(t, page.more)
	require.NoError(t, s.scanKeys(&page))
	require.Equal(t, [][]byte{fmt.Appendf(nil, "%06d", keysScanned)}, page.keys)
	require.False(t, page.more)
}
