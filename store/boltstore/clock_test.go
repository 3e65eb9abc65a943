package boltstore

import (
	"testing"
	"time"

	"github.com/redo-go/redo/internal/fakeclock"
	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
)

func TestClockSetBackRevivesNothing(t *testing.T) {
	fake := fakeclock.At(time.Now().UnixNano())
	s := mustOpen(t, tempFile(t), withClock(fake.Read))
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
