package boltstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/redo-go/redo/internal/fakeclock"
	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

func TestPending(t *testing.T) {
	t.Run("comes oldest first, over more than one read", func(t *testing.T) {
		fake := fakeclock.At(time.Now().UnixNano())
		s := mustOpen(t, tempFile(t), withClock(fake.Read))
		var want []string
		for i := range 2*scanned + 1 {
			fake.Wall.Add(1)
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
		fake := fakeclock.At(time.Now().UnixNano())
		s := mustOpen(t, tempFile(t), withClock(fake.Read))
		const n = 2*purgeBatch + 10
		for i := range n {
			c := claim(fmt.Sprint(i))
			c.Lease, c.Retention = 0, time.Minute
			mustReserve(t, s, c, store.Acquired)
		}
		mustReserve(t, s, claim("live"), store.Acquired)
		before := s.Stats().Commits
		fake.Wall.Add(int64(time.Minute) - 1)
		purged, err := s.Purge(t.Context(), n)
		require.NoError(t, err)
		require.Zero(t, purged)
		require.Equal(t, before, s.Stats().Commits, "nothing has expired")
		fake.Wall.Add(1)
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
	t.Run("deletes no record that is being reserved anew", func(t *testing.T) {
		fake := fakeclock.At(time.Now().UnixNano())
		g := newGate()
		s := mustOpen(t, tempFile(t), withClock(fake.Read), withCommit(g.commit))
		c := claim("k")
		c.Lease, c.Retention = 0, time.Minute
		done, purged := make(chan error, 1), make(chan int, 1)
		reserve := func() {
			_, err := s.Reserve(t.Context(), c)
			done <- err
		}
		go reserve()
		g.next((*bbolt.Tx).Commit)
		require.NoError(t, <-done)
		fake.Wall.Add(int64(time.Minute))
		go reserve()
		<-g.arrived
		go func() {
			n, err := s.Purge(t.Context(), 10)
			done <- err
			purged <- n
		}()
		require.Eventually(t, func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.current.purge == 10
		}, time.Minute, time.Millisecond)
		g.verdict <- (*bbolt.Tx).Commit
		require.NoError(t, <-done)
		g.next((*bbolt.Tx).Commit)
		require.NoError(t, <-done)
		require.Zero(t, <-purged)
		require.Equal(t, []string{"k"}, pendingKeys(t, s, ""))
	})
}
