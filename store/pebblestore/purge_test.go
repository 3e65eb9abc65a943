package pebblestore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
)

func TestPurge(t *testing.T) {
	fake := &fakeClock{wall: time.Now().UnixNano()}
	s := mustOpen(t, tempDir(t), withClock(fake.read))
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		c := claim(key)
		c.Lease, c.Retention = 0, time.Minute
		mustReserve(t, s, c, store.Acquired)
	}
	fake.wall += int64(time.Hour)
	mustReserve(t, s, claim("new"), store.Acquired) // deletes two
	n, err := s.Purge(t.Context(), 2)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	n, err = s.Purge(t.Context(), 2)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, []string{"new"}, pendingKeys(t, s, ""))
	require.NoError(t, s.Verify(t.Context()))
}

func TestPurgeSeesTheExpiryOfALazyOutcome(t *testing.T) {
	fake := &fakeClock{wall: time.Now().UnixNano()}
	s := mustOpen(t, tempDir(t), withClock(fake.read), WithLazyDelay(time.Hour))
	c := claim("k")
	c.Retention = store.Forever
	g := mustReserve(t, s, c, store.Acquired)
	n, err := s.Purge(t.Context(), 10)
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, s.Complete(t.Context(), g.Lease, store.Outcome{Lazy: true, Retention: time.Minute}))
	fake.wall += int64(time.Hour)
	n, err = s.Purge(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
}
