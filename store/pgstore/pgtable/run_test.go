package pgtable

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBackoffIsBounded(t *testing.T) {
	require.Zero(t, backoff(1, 0.99))
	for attempt, most := range map[int]time.Duration{
		2: time.Millisecond, 3: 2 * time.Millisecond, 7: 32 * time.Millisecond, maxAttempts: 32 * time.Millisecond,
	} {
		require.Zero(t, backoff(attempt, 0))
		require.Equal(t, most/2, backoff(attempt, 0.5))
	}
}
