package boltstore

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/redo-go/redo/store"
)

func lazyClaim(key string) store.Claim {
	c := claim(key)
	c.Lazy = true
	return c
}

func TestLazyClaim(t *testing.T) {
	t.Run("is seen at once and committed with the next durable change", func(t *testing.T) {
		path := tempFile(t)
		s := mustOpen(t, path, WithLazyDelay(time.Hour))
		mustReserve(t, s, claim("first"), store.Acquired) // reserves fences
		before := s.Stats().Commits
		lazy := mustReserve(t, s, lazyClaim("lazy"), store.Acquired)
		mustReserve(t, s, claim("lazy"), store.InFlight)
		require.Equal(t, before, s.Stats().Commits)
		mustReserve(t, s, claim("durable"), store.Acquired)
		require.Equal(t, before+1, s.Stats().Commits)
		after := afterCrash(t, path)
		require.Equal(t, lazy.Lease.Fence, find(t, after, "lazy").Fence)
		require.NoError(t, s.Complete(t.Context(), lazy.Lease, store.Outcome{}))
	})
	t.Run("may be lost in a crash, and its fence is not given out again", func(t *testing.T) {
		path := tempFile(t)
		s := mustOpen(t, path, WithLazyDelay(time.Hour))
		mustReserve(t, s, claim("first"), store.Acquired)
		lazy := mustReserve(t, s, lazyClaim("lazy"), store.Acquired)
		after := afterCrash(t, path)
		require.Greater(t, mustReserve(t, after, claim("lazy"), store.Acquired).Lease.Fence, lazy.Lease.Fence)
	})
	t.Run("is durable if the file has not reserved its fence", func(t *testing.T) {
		path := tempFile(t)
		s := mustOpen(t, path, WithLazyDelay(time.Hour))
		s.mu.Lock()
		s.fence = s.fences
		s.mu.Unlock()
		g := mustReserve(t, s, lazyClaim("k"), store.Acquired)
		require.Equal(t, g.Lease.Fence, find(t, afterCrash(t, path), "k").Fence)
	})
	t.Run("waits for the disk after a commit that failed", func(t *testing.T) {
		failing := true
		s := mustOpen(t, tempFile(t), WithLazyDelay(time.Hour), withCommit(func(tx *bbolt.Tx) error {
			if failing {
				return refuse(tx)
			}
			return tx.Commit()
		}))
		for _, c := range []store.Claim{claim("first"), lazyClaim("lazy")} {
			_, err := s.Reserve(t.Context(), c)
			require.ErrorIs(t, err, store.ErrUnavailable)
		}
		failing = false
		mustReserve(t, s, lazyClaim("lazy"), store.Acquired)
		before := s.Stats().Commits
		mustReserve(t, s, lazyClaim("another"), store.Acquired)
		require.Equal(t, before, s.Stats().Commits)
	})
	t.Run("whose commit fails stays claimed", func(t *testing.T) {
		s, g := gated(t)
		done := blocked(t, s, g, "first")
		g.verdict <- (*bbolt.Tx).Commit
		require.NoError(t, <-done)
		lazy := mustReserve(t, s, lazyClaim("lazy"), store.Acquired)
		done = blocked(t, s, g, "second")
		g.verdict <- refuse
		require.ErrorIs(t, <-done, store.ErrUnavailable)
		mustReserve(t, s, claim("lazy"), store.InFlight)
		listed := make(chan []error, 1)
		go func() {
			var errs []error
			for _, err := range s.Pending(t.Context(), "") {
				errs = append(errs, err)
			}
			listed <- errs
		}()
		g.next(refuse)
		errs := <-listed
		require.Len(t, errs, 1, "a list that can't have the claim is no whole one")
		require.ErrorIs(t, errs[0], store.ErrUnavailable)
		completed := make(chan error, 1)
		go func() { completed <- s.Complete(t.Context(), lazy.Lease, store.Outcome{}) }()
		g.next((*bbolt.Tx).Commit)
		require.NoError(t, <-completed)
	})
}

// afterCrash opens a copy of the file as it is on the disk now.
func afterCrash(t *testing.T, path string) *Store {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	copied := tempFile(t)
	require.NoError(t, os.WriteFile(copied, content, 0o600))
	return mustOpen(t, copied)
}
