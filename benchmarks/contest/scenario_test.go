package contest

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConcurrently(t *testing.T) {
	for _, callers := range []int{1, 3, 64} {
		var seen [10]atomic.Int32
		r := Concurrently(callers, func(i int) error {
			seen[i].Add(1)
			return nil
		}, nil)
		require.NoError(t, r.Run(7))
		require.NoError(t, r.Run(3))
		for i := range seen {
			require.Equal(t, int32(1), seen[i].Load(), "call %d with %d callers", i, callers)
		}
	}
}

func TestARunnerReportsAFailedCall(t *testing.T) {
	failure := errors.New("failed")
	for _, callers := range []int{1, 4} {
		r := Concurrently(callers, func(i int) error {
			if i == 5 {
				return failure
			}
			return nil
		}, nil)
		require.NoError(t, r.Run(5))
		require.ErrorIs(t, r.Run(4), failure)
	}
}
