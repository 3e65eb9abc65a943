package boltstore

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

func TestPending(t *testing.T) {
	t.Run("comes oldest first, over more than one read", func(t *testing.T) {
		fake := &fakeClock{wall: time.Now().UnixNano()}
		s := mustOpen(t, tempFile(t), withClock(fake.read))
		var want []string
		for i := range 2*scanned + 1 {
			fake.wall++
			key := fmt.Sprintf("%x", (i*7919)%10007)
			g := mustReserve(t, s, claim(key), store.Acquired)
			if i%5 == 0 {
				require.NoError(t, s.Complete(t.Context(), g.Lease, store.Outcome{Lazy: true}))
				continue
			}
			want = append(want, key)
		}
		require.Equal(t, want, pendingKeys(t, s, "scope"))
		require.Equal(t, want, pendingKeys(t, s, ""))
		require.Empty(t, pendingKeys(t, s, "other"))
	})
	t.Run("lets the loop settle what it yields", func(t *testing.T) {
		s := mustOpen(t, tempFile(t))
		for i := range 10 {
			mustReserve(t, s, claim(fmt.Sprint(i)), store.Acquired)
		}
		n := 0
		for r, err := range s.Pending(t.Context(), "") {
			require.NoError(t, err)
			require.NoError(t, s.Complete(t.Context(), r.Lease(), store.Outcome{}))
			n++
		}
		require.Equal(t, 10, n)
		require.Empty(t, pendingKeys(t, s, ""))
	})
}

func TestPurge(t *testing.T) {
	t.Run("works through more than one group", func(t *testing.T) {
		fake := &fakeClock{wall: time.Now().UnixNano()}
		s := mustOpen(t, tempFile(t), withClock(fake.read))
		const n = 2*purgeBatch + 10
		for i := range n {
			c := claim(fmt.Sprint(i))
			c.Lease, c.Retention = 0, time.Minute
			mustReserve(t, s, c, store.Acquired)
		}
		mustReserve(t, s, claim("live"), store.Acquired)
		purged, err := s.Purge(t.Context(), n)
		require.NoError(t, err)
		require.Zero(t, purged)
		fake.wall += int64(time.Minute)
		before := s.Stats().Commits
		purged, err = s.Purge(t.Context(), n-1)
		require.NoError(t, err)
		require.Equal(t, n-1, purged)
		require.Equal(t, uint64(3), s.Stats().Commits-before)
		purged, err = s.Purge(t.Context(), n)
		require.NoError(t, err)
		require.Equal(t, 1, purged)
		checkIndexes(t, s)
		require.Equal(t, []string{"live"}, pendingKeys(t, s, ""))
	})
	t.Run("leaves a record that is being changed", func(t *testing.T) {
		fake := &fakeClock{wall: time.Now().UnixNano()}
		g := newGate()
		s := mustOpen(t, tempFile(t), withClock(fake.read), withCommit(g.commit))
		c := claim("k")
		c.Lease, c.Retention = 0, time.Minute
		done := make(chan error, 1)
		reserve := func() {
			_, err := s.Reserve(t.Context(), c)
			done <- err
		}
		go reserve()
		g.next((*bbolt.Tx).Commit)
		require.NoError(t, <-done)
		fake.wall += int64(time.Minute)
		go reserve()
		<-g.arrived
		n, err := s.Purge(t.Context(), 10)
		require.NoError(t, err)
		require.Zero(t, n)
		g.verdict <- (*bbolt.Tx).Commit
		require.NoError(t, <-done)
		require.Equal(t, []string{"k"}, pendingKeys(t, s, ""))
	})
}

func TestPurgeEvery(t *testing.T) {
	t.Run("purges in rounds until its context ends, and tells of each", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := mustOpen(t, tempFile(t))
			ctx, cancel := context.WithCancel(t.Context())
			start := time.Now()
			var rounds []int
			c := claim("k")
			c.Lease, c.Retention = 0, time.Second
			mustReserve(t, s, c, store.Acquired)
			err := s.PurgeEvery(ctx, time.Hour, func(purged int, err error) {
				require.NoError(t, err)
				since := time.Since(start)
				require.GreaterOrEqual(t, since, 45*time.Minute)
				require.Less(t, since, 75*time.Minute+time.Second)
				start = time.Now()
				if rounds = append(rounds, purged); len(rounds) == 3 {
					cancel()
				}
			})
			require.ErrorIs(t, err, context.Canceled)
			require.Equal(t, []int{1, 0, 0}, rounds)
			require.NoError(t, s.Close())
		})
	})
	t.Run("ends when the store is closed", func(t *testing.T) {
		s := mustOpen(t, tempFile(t))
		done := make(chan error, 1)
		go func() { done <- s.PurgeEvery(t.Context(), time.Hour, nil) }()
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-done, store.ErrUnavailable)
	})
	t.Run("refuses an interval that is not positive", func(t *testing.T) {
		require.ErrorIs(t, mustOpen(t, tempFile(t)).PurgeEvery(t.Context(), 0, nil), store.ErrInvalid)
	})
}
