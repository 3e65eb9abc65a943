package boltstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/redo-go/redo/internal/envelope"
	"github.com/redo-go/redo/internal/fakeclock"
	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// expiring opens a store with n records that have expired, a settled one that has not, and its clock.
func expiring(t *testing.T, n int) (*Store, *fakeclock.Clock) {
	t.Helper()
	fake := fakeclock.At(1)
	s := mustOpen(t, tempFile(t), withClock(fake.Read))
	for i := range n {
		c := claim(fmt.Sprint(i))
		c.Lease, c.Retention = 0, time.Minute
		fake.Wall.Add(1)
		mustReserve(t, s, c, store.Acquired)
	}
	mustSettle(t, s, "settled", store.Outcome{Retention: store.Forever})
	fake.Wall.Add(int64(time.Hour))
	return s, fake
}

// stored returns the number of records in the file, expired ones included.
func stored(t *testing.T, s *Store) (n int) {
	t.Helper()
	require.NoError(t, s.view(func(b buckets) error {
		n = count(b.records.ForEach)
		return nil
	}))
	return n
}

func TestNewRecordDeletesTwoExpiredOnes(t *testing.T) {
	t.Run("in its own commit, the oldest first", func(t *testing.T) {
		s, _ := expiring(t, 5)
		before := s.Stats().Commits
		mustReserve(t, s, claim("new"), store.Acquired)
		require.Equal(t, 3+2, stored(t, s))
		mustReserve(t, s, claim("newer"), store.Acquired)
		require.Equal(t, 1+3, stored(t, s))
		mustReserve(t, s, claim("newest"), store.Acquired)
		require.Equal(t, 0+4, stored(t, s))
		require.Equal(t, before+3, s.Stats().Commits)
		require.Equal(t, store.StateComplete, find(t, s, "settled").State)
		checkIndexes(t, s)
		mustReserve(t, s, claim("0"), store.Acquired)
	})
	t.Run("also when it replaces an expired one", func(t *testing.T) {
		s, _ := expiring(t, 5)
		mustReserve(t, s, claim("4"), store.Acquired)
		require.Equal(t, 3+1, stored(t, s))
		require.Equal(t, store.StatePending, find(t, s, "4").State)
		checkIndexes(t, s)
	})
	t.Run("also when a transaction makes it", func(t *testing.T) {
		s, _ := expiring(t, 5)
		tx, _ := mustBegin(t, s, claim("new"), store.Acquired)
		require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
		require.Equal(t, 3+2, stored(t, s))
		checkIndexes(t, s)
	})
	t.Run("and no other change does", func(t *testing.T) {
		s, _ := expiring(t, 5)
		r := find(t, s, "settled")
		require.NoError(t, s.Forget(t.Context(), r.Lease()))
		require.NoError(t, s.Update(t.Context(), func(tx *Tx) error { return pay(tx, "k") }))
		require.Equal(t, 5, stored(t, s))
	})
	t.Run("and a take-over does not", func(t *testing.T) {
		s, fake := expiring(t, 2)
		c := claim("k")
		c.Lease = 0
		mustReserve(t, s, c, store.Acquired)
		c.Retention = time.Hour
		mustReserve(t, s, c, store.TakenOver)
		c.ID.Key = "short"
		c.Retention = time.Minute
		mustReserve(t, s, c, store.Acquired)
		fake.Wall.Add(int64(2 * time.Minute))
		before := stored(t, s)
		mustReserve(t, s, claim("k"), store.TakenOver)
		require.Equal(t, before, stored(t, s))
	})
	t.Run("but none that has been prolonged in the same commit", func(t *testing.T) {
		fake := fakeclock.At(1)
		g := newGate()
		s := mustOpen(t, tempFile(t), withClock(fake.Read), withCommit(g.commit))
		short := claim("short")
		short.Lease, short.Retention = time.Minute, time.Minute
		done := make(chan error, 3)
		reserve := func(c store.Claim) {
			_, err := s.Reserve(t.Context(), c)
			done <- err
		}
		go reserve(short)
		g.next((*bbolt.Tx).Commit)
		require.NoError(t, <-done)
		go reserve(claim("first"))
		<-g.arrived
		go func() { done <- s.Extend(t.Context(), store.Lease{ID: short.ID, Fence: 1}, time.Hour, nil) }()
		queued(t, s, 1)
		go reserve(claim("second"))
		queued(t, s, 2)
		s.mu.Lock()
		fake.Wall.Add(int64(2 * time.Minute))
		s.mu.Unlock()
		g.verdict <- (*bbolt.Tx).Commit
		g.next((*bbolt.Tx).Commit)
		for range 3 {
			require.NoError(t, <-done)
		}
		require.Equal(t, store.StatePending, find(t, s, "short").State)
		checkIndexes(t, s)
	})
	t.Run("passing one that can't be read", func(t *testing.T) {
		s, fake := expiring(t, 4)
		require.NoError(t, s.Close())
		edit(t, s.path, func(tx *bbolt.Tx) error {
			key := envelope.AppendKey(nil, claim("0").ID)
			return tx.Bucket(rootName).Bucket(recordsName).Put(key, []byte("damaged"))
		})
		s = mustOpen(t, s.path, withClock(fake.Read))
		mustReserve(t, s, claim("new"), store.Acquired)
		require.Equal(t, 2+2, stored(t, s))
		_, err := s.Find(t.Context(), claim("0").ID)
		require.ErrorIs(t, err, store.ErrDamaged)
	})
}

func TestServiceWithoutAPurgeLoopDoesNotGrow(t *testing.T) {
	fake := fakeclock.At(1)
	s := mustOpen(t, tempFile(t), withClock(fake.Read))
	most := 0
	for i := range 500 {
		fake.Wall.Add(int64(time.Second))
		c := claim(fmt.Sprint(i))
		c.Lease, c.Retention = 0, 10*time.Second
		mustReserve(t, s, c, store.Acquired)
		most = max(most, stored(t, s))
	}
	require.Equal(t, 10, most)
}
