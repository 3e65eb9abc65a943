package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
)

// A gate holds each sync of the log until it is let through.
type gate struct {
	arrived chan struct{}
	pass    chan struct{}
}

// gated opens a store whose syncs of the log wait at the gate, until the test ends.
func gated(t *testing.T, opts ...Option) (*Store, *gate) {
	t.Helper()
	disk := newFaultyDisk(t)
	s := mustOpen(t, "/data/x", append(opts, withFS(disk))...)
	g := &gate{make(chan struct{}), make(chan struct{})}
	open := make(chan struct{})
	t.Cleanup(func() { close(open); _ = s.Close() })
	disk.set(func(op errorfs.Op) error {
		if (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData) && strings.HasSuffix(op.Path, ".log") {
			select {
			case g.arrived <- struct{}{}:
				select {
				case <-g.pass:
				case <-open:
				}
			case <-open:
			}
		}
		return nil
	})
	return s, g
}

func reserving(ctx context.Context, s *Store, key string) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := s.Reserve(ctx, claim(key))
		done <- err
	}()
	return done
}

// queued waits until the overlay has n records.
func queued(t *testing.T, s *Store, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.overlay) == n
	}, time.Minute, time.Millisecond)
}

func TestCallersBehindASyncShareTheNext(t *testing.T) {
	s, g := gated(t)
	first := reserving(t.Context(), s, "first")
	<-g.arrived
	var rest []<-chan error
	for i := range 64 {
		rest = append(rest, reserving(t.Context(), s, fmt.Sprint(i)))
	}
	queued(t, s, 65)
	g.pass <- struct{}{}
	require.NoError(t, <-first)
	all := make(chan error, 1)
	go func() {
		var err error
		for _, done := range rest {
			err = errors.Join(err, <-done)
		}
		all <- err
	}()
	for syncs := 0; ; syncs++ {
		select {
		case <-g.arrived:
			g.pass <- struct{}{}
			continue
		case err := <-all:
			require.NoError(t, err)
		}
		// One group may be with Pebble, and one on its way there, when the others queue.
		require.LessOrEqual(t, syncs, 3)
		return
	}
}

func TestResponseWaitsForTheDurableChangeItSaw(t *testing.T) {
	s, g := gated(t)
	first := reserving(t.Context(), s, "k")
	<-g.arrived
	second := make(chan store.Verdict, 1)
	found := make(chan error, 1)
	go func() {
		grant, _ := s.Reserve(t.Context(), claim("k"))
		second <- grant.Verdict
	}()
	go func() {
		_, err := s.Find(t.Context(), claim("k").ID)
		found <- err
	}()
	// A change of another record that is decided meanwhile shows that the two calls could have returned.
	other := reserving(t.Context(), s, "other")
	queued(t, s, 2)
	require.Empty(t, second)
	require.Empty(t, found)
	g.pass <- struct{}{}
	require.NoError(t, <-first)
	require.Equal(t, store.InFlight, <-second)
	require.NoError(t, <-found)
	<-g.arrived
	g.pass <- struct{}{}
	require.NoError(t, <-other)
}

func TestAContextEndsTheWaitForADurableChange(t *testing.T) {
	s, g := gated(t)
	first := reserving(t.Context(), s, "k")
	<-g.arrived
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	select {
	case err := <-reserving(ctx, s, "k"):
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, store.ErrUnknown, "it has changed nothing")
	case <-time.After(10 * time.Second):
		require.Fail(t, "it waits on")
	}
	g.pass <- struct{}{}
	require.NoError(t, <-first)
}

func TestContextThatEndsDuringASyncLeavesTheOutcomeUnknown(t *testing.T) {
	s, g := gated(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := reserving(ctx, s, "k")
	<-g.arrived
	cancel()
	err := <-done
	require.ErrorIs(t, err, store.ErrUnknown)
	require.ErrorIs(t, err, context.Canceled)
	g.pass <- struct{}{}
	r, err := s.Find(t.Context(), claim("k").ID)
	require.NoError(t, err)
	require.Equal(t, store.StatePending, r.State)
}

func TestLazyOutcome(t *testing.T) {
	s, g := gated(t, WithLazyDelay(time.Hour))
	reserved := reserving(t.Context(), s, "k")
	<-g.arrived
	g.pass <- struct{}{}
	require.NoError(t, <-reserved)
	r, err := s.Find(t.Context(), claim("k").ID)
	require.NoError(t, err)
	require.NoError(t, s.Complete(t.Context(), r.Lease(), store.Outcome{Lazy: true}), "no sync is let through")
	mustReserve(t, s, claim("k"), store.Complete)
	s.overdue()
	<-g.arrived // the delay has ended
	g.pass <- struct{}{}
	queued(t, s, 0)
}

func TestVerdictsWithoutAChangeWriteNothing(t *testing.T) {
	s := mustOpen(t, tempDir(t))
	l := mustSettle(t, s, "k", store.Outcome{})
	mustReserve(t, s, claim("held"), store.Acquired)
	before := s.groups
	mustReserve(t, s, claim("k"), store.Complete)
	mustReserve(t, s, claim("held"), store.InFlight)
	require.ErrorIs(t, s.Complete(t.Context(), l, store.Outcome{}), store.ErrLost)
	n, err := s.Purge(t.Context(), 10)
	require.NoError(t, err)
	require.Zero(t, n)
	require.Equal(t, before, s.groups)
	mustReserve(t, s, claim("new"), store.Acquired)
	require.Greater(t, s.groups, before)
}
