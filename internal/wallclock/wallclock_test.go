package wallclock

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/fakeclock"
)

func TestClock(t *testing.T) {
	const h = int64(time.Hour)
	steps := []struct {
		name            string
		wall, monotonic int64 // moves
		want            int64
	}{
		{"goes with both", h, h, 11 * h},
		{"wall set back is made up by the monotonic clock", -5 * h, h, 12 * h},
		{"and goes on", h, h, 13 * h},
		{"wall set forward is followed", 20 * h, 0, 27 * h},
		{"standing still is allowed", 0, 0, 27 * h},
	}
	fake := fakeclock.At(10 * h)
	c := New(fake.Read)
	require.Equal(t, 10*h, c.Now())
	for _, s := range steps {
		fake.Wall.Add(s.wall)
		fake.Monotonic.Add(s.monotonic)
		require.Equal(t, s.want, c.Now(), s.name)
	}
}

func TestSystem(t *testing.T) {
	read := System()
	before := time.Now().UnixNano()
	wall, first := read()
	_, second := read()
	require.GreaterOrEqual(t, wall, before)
	require.LessOrEqual(t, wall, time.Now().UnixNano())
	require.GreaterOrEqual(t, second, first)
	require.GreaterOrEqual(t, first, time.Duration(0))
}

func TestAfter(t *testing.T) {
	require.Equal(t, int64(7), After(3, 4))
	require.Equal(t, int64(math.MaxInt64), After(3, math.MaxInt64-3))
	require.Equal(t, int64(math.MaxInt64), After(3, math.MaxInt64-2))
}
