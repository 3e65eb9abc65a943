package boltstore

import (
	"fmt"
	"os"
	"testing"

	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
)

// rollBack begins and rolls back, and returns the fence.
func rollBack(t *testing.T, s *Store, key string) uint64 {
	t.Helper()
	tx, g := mustBegin(t, s, claim(key), store.Acquired)
	require.NoError(t, tx.Rollback(t.Context()))
	return g.Lease.Fence
}

func TestFenceThatWasToldIsNeverGivenOutAgain(t *testing.T) {
	path, last := tempFile(t), uint64(0)
	s := mustOpen(t, path)
	for restart := range 6 {
		rollbacks := []int{1, fenceBlock - 1, fenceBlock + 2}[restart%3]
		for i := range rollbacks {
			fence := rollBack(t, s, "k")
			require.Greater(t, fence, last, "begin %d after restart %d", i, restart)
			last = fence
		}
		if restart%2 == 0 {
			require.NoError(t, s.Close())
		} else {
			// The file as a crash leaves it.
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			path = tempFile(t)
			require.NoError(t, os.WriteFile(path, content, 0o600))
		}
		s = mustOpen(t, path)
	}
	require.Greater(t, mustReserve(t, s, claim("k"), store.Acquired).Lease.Fence, last)
}

func TestCommitsThatFencesCost(t *testing.T) {
	path := tempFile(t)
	s := mustOpen(t, path)
	costs := func(want uint64, rollbacks int) {
		t.Helper()
		before := s.Stats().Commits
		for i := range rollbacks {
			rollBack(t, s, fmt.Sprint(i))
		}
		require.Equal(t, before+want, s.Stats().Commits)
	}
	costs(0, fenceBlock)
	costs(1, 1)
	costs(0, fenceBlock-1)
	mustSettle(t, s, "any change", store.Outcome{})
	costs(0, fenceBlock)
	require.NoError(t, s.Close())

	s = mustOpen(t, path)
	costs(1, 1)
	costs(0, fenceBlock-1)
	require.NoError(t, s.Close())
	s = mustOpen(t, path)
	mustSettle(t, s, "another change", store.Outcome{})
	costs(0, fenceBlock)
	tx, _ := mustBegin(t, s, claim("work"), store.Acquired)
	before := s.Stats().Commits
	require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
	require.Equal(t, before+1, s.Stats().Commits)
	costs(0, fenceBlock)
}

func TestFenceThatCannotBeReservedIsNotTold(t *testing.T) {
	var f fails
	s := mustOpen(t, tempFile(t), f.option())
	for range fenceBlock {
		rollBack(t, s, "k")
	}
	f.how = refuse
	tx, _, err := s.Begin(t.Context(), claim("k"))
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.Nil(t, tx)
	require.Empty(t, s.claims)
	f.how = betray
	_, _, err = s.Begin(t.Context(), claim("k"))
	require.ErrorIs(t, err, store.ErrUnavailable, "a commit that nobody knows of has reserved nothing")
	f.how = nil
	require.EqualValues(t, fenceBlock+1, rollBack(t, s, "k"))
}
