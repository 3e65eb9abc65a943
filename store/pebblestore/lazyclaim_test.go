package pebblestore

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/hangtest"
	"github.com/redo-go/redo/store"
)

func lazyClaim(key string) store.Claim {
	c := claim(key)
	c.Lazy = true
	return c
}

func TestLazyClaimSharesTheSyncOfTheNextChange(t *testing.T) {
	s, g := gated(t, WithLazyDelay(time.Hour))
	lazy := mustReserve(t, s, lazyClaim("lazy"), store.Acquired)
	mustReserve(t, s, claim("lazy"), store.InFlight)
	before := s.groups
	done := reserving(t.Context(), s, "durable")
	<-g.arrived
	g.pass <- struct{}{}
	require.NoError(t, <-done)
	require.Equal(t, before+1, s.groups)

	completed := make(chan error, 1)
	go func() { completed <- s.Complete(t.Context(), lazy.Lease, store.Outcome{}) }()
	<-g.arrived
	g.pass <- struct{}{}
	require.NoError(t, <-completed)
}

func TestLazyClaimAndItsOutcomeShareASync(t *testing.T) {
	s := mustOpen(t, tempDir(t), WithLazyDelay(time.Hour))
	l := mustReserve(t, s, lazyClaim("k"), store.Acquired).Lease
	before := s.groups
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, s.Complete(ctx, l, store.Outcome{}), "it does not wait for the claim")
	require.Equal(t, before+1, s.groups)
}

// A lazy claim takes no fence that the directory has not reserved: a crash could give it out again.
func TestLazyClaimBeyondTheReservedFencesIsDurable(t *testing.T) {
	s := mustOpen(t, tempDir(t), WithLazyDelay(time.Hour))
	s.mu.Lock()
	s.fence = s.reserved - 1
	s.mu.Unlock()
	mustReserve(t, s, lazyClaim("last"), store.Acquired)
	s.mu.Lock()
	require.Len(t, s.overlay, 1)
	s.mu.Unlock()
	g := mustReserve(t, s, lazyClaim("durable"), store.Acquired)
	s.mu.Lock()
	require.Empty(t, s.overlay)
	require.Greater(t, s.reserved, g.Lease.Fence)
	s.mu.Unlock()
	mustReserve(t, s, lazyClaim("lazy"), store.Acquired)
	s.mu.Lock()
	require.Len(t, s.overlay, 1)
	s.mu.Unlock()
	require.NoError(t, s.Close())
}

// Pebble's index of the pending records has all but lazy claims, so that no other change is written for a list.
func TestPendingWaitsForNoLazyOutcome(t *testing.T) {
	s := mustOpen(t, tempDir(t), WithLazyDelay(time.Hour))
	l := mustReserve(t, s, claim("k"), store.Acquired).Lease
	require.NoError(t, s.Complete(t.Context(), l, store.Outcome{Lazy: true}))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, s.writeClaims(ended), "it waits for nothing")
	s.mu.Lock()
	defer s.mu.Unlock()
	require.False(t, s.current.due)
}

// Otherwise a list would wait for the delay.
func TestPendingHasLazyClaimsWritten(t *testing.T) {
	s := mustOpen(t, tempDir(t), WithLazyDelay(time.Hour))
	mustReserve(t, s, lazyClaim("k"), store.Acquired)
	var keys []string
	require.NoError(t, hangtest.Within(t, func() error {
		keys = pendingKeys(t, s, "")
		return nil
	}))
	require.Equal(t, []string{"k"}, keys)
}

// A change never joins a group whose batch Pebble has already.
func TestAChangeWaitsForTheLazyOneThatIsBeingSynced(t *testing.T) {
	s, g := gated(t, WithLazyDelay(time.Hour))
	l := mustReserve(t, s, lazyClaim("k"), store.Acquired).Lease
	s.overdue()
	<-g.arrived
	waits, completed := make(chan struct{}), make(chan error, 1)
	go func() {
		ctx := awaited{t.Context(), sync.OnceFunc(func() { close(waits) })}
		completed <- s.Complete(ctx, l, store.Outcome{Result: []byte("done")})
	}()
	<-waits
	mustReserve(t, s, claim("k"), store.InFlight)
	g.pass <- struct{}{}
	<-g.arrived
	g.pass <- struct{}{}
	require.NoError(t, <-completed)
	require.Equal(t, "done", string(mustReserve(t, s, claim("k"), store.Complete).Record.Result))
}

func TestPendingWaitsForALazyClaimUntilItsContextEnds(t *testing.T) {
	s, _ := gated(t, WithLazyDelay(time.Hour))
	mustReserve(t, s, lazyClaim("k"), store.Acquired)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.writeClaims(ended), context.Canceled)
	require.ErrorIs(t, s.Check(ended), context.Canceled)
}
