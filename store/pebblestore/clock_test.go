package pebblestore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/fakeclock"
	"github.com/redo-go/redo/store"
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
	c := newClock(fake.Read)
	require.Equal(t, 10*h, c.now())
	for _, s := range steps {
		fake.Wall.Add(s.wall)
		fake.Monotonic.Add(s.monotonic)
		require.Equal(t, s.want, c.now(), s.name)
	}
}

func TestClockSetBackRevivesNothing(t *testing.T) {
	fake := fakeclock.At(time.Now().UnixNano())
	s := mustOpen(t, tempDir(t), withClock(fake.Read))
	c := claim("k")
	c.Lease = time.Minute
	mustReserve(t, s, c, store.Acquired)
	expired := claim("expired")
	expired.Lease, expired.Retention = 0, time.Minute
	mustReserve(t, s, expired, store.Acquired)

	fake.Wall.Add(int64(2 * time.Minute))
	fake.Monotonic.Add(int64(2 * time.Minute))
	_, err := s.Find(t.Context(), expired.ID)
	require.ErrorIs(t, err, store.ErrNotFound)
	fake.Wall.Add(-int64(24 * time.Hour))

	_, err = s.Find(t.Context(), expired.ID)
	require.ErrorIs(t, err, store.ErrNotFound)
	mustReserve(t, s, c, store.TakenOver)
}
