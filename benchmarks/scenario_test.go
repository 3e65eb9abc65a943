package main

import (
	"errors"
	"os"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// The bodies check their own results, so that to run them is to test them.
func TestEveryContestantDoesItsWork(t *testing.T) {
	for _, s := range scenarios(few) {
		t.Run(s.name, func(t *testing.T) {
			if s.ready != nil {
				err := s.ready()
				if errors.Is(err, errNoEngine) && os.Getenv("REDO_TEST_REQUIRE") == "" {
					t.Skip(err)
				}
				require.NoError(t, err)
				for _, undo := range []func() error{s.done, s.end} {
					if undo != nil {
						t.Cleanup(func() { require.NoError(t, undo()) })
					}
				}
			}
			for _, c := range s.contestants {
				t.Run(c.name, func(t *testing.T) {
					r, err := c.open(t.TempDir())
					require.NoError(t, err)
					require.NoError(t, r.filled(1))
					require.NoError(t, r.filled(3), "a later run goes on where the one before ended")
					require.NoError(t, r.stop())
				})
			}
		})
	}
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range scenarios(few) {
		require.False(t, seen[s.name], "two scenarios are named %q", s.name)
		seen[s.name] = true
		var names []string
		for _, c := range s.contestants {
			require.NotContains(t, names, c.name)
			names = append(names, c.name)
		}
		require.True(t, slices.Contains(names, s.reference), "%s: the reference %q is no contestant", s.name,
			s.reference)
	}
}

func TestConcurrently(t *testing.T) {
	for _, callers := range []int{1, 3, 64} {
		var seen [10]atomic.Int32
		r := concurrently(callers, func(i int) error {
			seen[i].Add(1)
			return nil
		}, nil)
		require.NoError(t, r.run(7))
		require.NoError(t, r.run(3))
		for i := range seen {
			require.Equal(t, int32(1), seen[i].Load(), "call %d with %d callers", i, callers)
		}
	}
}

func TestARunnerReportsAFailedCall(t *testing.T) {
	failure := errors.New("failed")
	for _, callers := range []int{1, 4} {
		r := concurrently(callers, func(i int) error {
			if i == 5 {
				return failure
			}
			return nil
		}, nil)
		require.NoError(t, r.run(5))
		require.ErrorIs(t, r.run(4), failure)
	}
}
