package pebblestore

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
)

// waiting makes a record, and starts a call that waits for its change. The call ends after five seconds.
func waiting(t *testing.T, s *Store) (store.Lease, <-chan error) {
	t.Helper()
	l := mustReserve(t, s, claim("k"), store.Acquired).Lease
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	t.Cleanup(cancel)
	done := make(chan error, 1)
	go func() { done <- s.Wait(ctx, l.ID, l.Fence) }()
	require.Eventually(t, s.Waited, time.Minute, time.Millisecond)
	time.Sleep(50 * time.Millisecond) // for its first read
	return l, done
}

// A waiter reads its record every ten seconds, so Close wakes it.
func TestCloseAnswersThoseWhoWait(t *testing.T) {
	s := mustOpen(t, tempDir(t))
	_, done := waiting(t, s)
	require.NoError(t, s.Close())
	require.ErrorIs(t, <-done, store.ErrUnavailable)
}

func TestADurableChangeAnswersThoseWhoWait(t *testing.T) {
	s := mustOpen(t, tempDir(t))
	l, done := waiting(t, s)
	require.NoError(t, s.Complete(t.Context(), l, store.Outcome{}))
	require.NoError(t, <-done)
}
