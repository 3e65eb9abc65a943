package server

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRetryDelay(t *testing.T) {
	require.Equal(t, time.Second, retryDelay(30*time.Second, 0), "a second while nothing is known of the handler")
	require.Equal(t, 3*time.Second, retryDelay(30*time.Second, 3*time.Second),
		"the handler's usual time, not the lease's")
	require.Equal(t, 2*time.Second, retryDelay(2*time.Second, time.Minute), "the lease's when that is over sooner")
	require.Equal(t, time.Minute, retryDelay(0, time.Minute), "a transaction has no lease that could be over sooner")
}

func TestSeconds(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		r    float64
		want int
	}{
		{0, 0, 1}, {time.Millisecond, 0.99, 1}, {time.Second, 0, 1}, {time.Second, 0.5, 2},
		{1500 * time.Millisecond, 0, 2},
		{time.Minute, 0.5, 75},
		{4 * time.Second, 0, 4}, {4 * time.Second, 0.5, 5}, {4 * time.Second, 0.99, 6}, {time.Hour, 0, 3600},
	} {
		require.Equal(t, c.want, seconds(c.d, c.r), "%v with %v", c.d, c.r)
	}
}

func TestEstimate(t *testing.T) {
	var e estimate
	require.Zero(t, e.value())
	e.add(8 * time.Second)
	require.Equal(t, 8*time.Second, e.value())
	e.add(16 * time.Second)
	require.Equal(t, 9*time.Second, e.value())
	e.add(time.Second)
	require.Equal(t, 8*time.Second, e.value())
}
