package boltstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/redo-go/redo/internal/fakeclock"
	"github.com/redo-go/redo/internal/hangtest"
	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

func TestClosedStoreIsUnavailable(t *testing.T) {
	s := mustOpen(t, tempFile(t))
	l := mustReserve(t, s, claim("k"), store.Acquired).Lease
	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "a second Close does no harm")
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"Reserve":       func() error { _, err := s.Reserve(ctx, claim("k")); return err },
		"Extend":        func() error { return s.Extend(ctx, l, time.Hour, nil) },
		"Complete":      func() error { return s.Complete(ctx, l, store.Outcome{}) },
		"lazy Complete": func() error { return s.Complete(ctx, l, store.Outcome{Lazy: true}) },
		"Release":       func() error { return s.Release(ctx, l) },
		"Forget":        func() error { return s.Forget(ctx, l) },
		"Find":          func() error { _, err := s.Find(ctx, l.ID); return err },
		"Purge":         func() error { _, err := s.Purge(ctx, 1); return err },
		"Wait":          func() error { return s.Wait(ctx, l.ID, l.Fence) },
		"Check":         func() error { return s.Check(ctx) },
		"Backup":        func() error { _, err := s.Backup(ctx, io.Discard); return err },
		"Verify":        func() error { return s.Verify(ctx) },
		"Pending": func() error {
			for _, err := range s.Pending(ctx, "") {
				return err
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) { require.ErrorIs(t, call(), store.ErrUnavailable) })
	}
}

func TestCloseAnswersThoseWhoWait(t *testing.T) {
	s := mustOpen(t, tempFile(t))
	l := mustReserve(t, s, claim("k"), store.Acquired).Lease
	done := make(chan error, 1)
	go func() { done <- s.Wait(t.Context(), l.ID, l.Fence) }()
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.waiting == 1
	}, time.Minute, time.Millisecond)
	require.NoError(t, s.Close())
	require.ErrorIs(t, <-done, store.ErrUnavailable)
}

// Of the calls that run while the store is closed, each is answered, and what was acknowledged is in the file.
func TestCloseLosesNoCall(t *testing.T) {
	for round := range 10 {
		path := tempFile(t)
		s := mustOpen(t, path)
		var mu sync.Mutex
		settled := make(map[string]store.State)
		var wg sync.WaitGroup
		started := make(chan struct{}, 16)
		for w := range 16 {
			wg.Go(func() {
				for i := 0; ; i++ {
					key := fmt.Sprintf("%d-%d", w, i)
					g, err := s.Reserve(t.Context(), claim(key))
					state := store.StatePending
					if err == nil {
						if err = s.Complete(t.Context(), g.Lease, store.Outcome{Lazy: i%2 == 0}); err == nil {
							state = store.StateComplete
						}
						mu.Lock()
						settled[key] = state
						mu.Unlock()
					}
					if err != nil {
						if !errors.Is(err, store.ErrUnavailable) {
							t.Error(err)
						}
						return
					}
					if i == round {
						started <- struct{}{}
					}
				}
			})
		}
		<-started
		var closers sync.WaitGroup
		for range 3 {
			closers.Go(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		closers.Wait()
		wg.Wait()
		s = mustOpen(t, path)
		for key, want := range settled {
			require.Equal(t, want, find(t, s, key).State, key)
		}
		checkIndexes(t, s)
		require.NoError(t, s.Close())
	}
}

func TestContextThatEndsDuringACommit(t *testing.T) {
	t.Run("makes a durable change unknown", func(t *testing.T) {
		s, g := gated(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := s.Reserve(ctx, claim("k"))
			done <- err
		}()
		<-g.arrived
		cancel()
		err := <-done
		require.ErrorIs(t, err, store.ErrUnknown)
		require.ErrorIs(t, err, ctx.Err())
		g.verdict <- (*bbolt.Tx).Commit
		require.Equal(t, store.StatePending, find(t, s, "k").State)
	})
	t.Run("leaves a read without an answer", func(t *testing.T) {
		s, g := gated(t)
		first := blocked(t, s, g, "k")
		ctx, cancel := context.WithCancel(t.Context())
		found := make(chan error, 1)
		go func() {
			_, err := s.Find(ctx, claim("k").ID)
			found <- err
		}()
		cancel()
		err := <-found
		require.ErrorIs(t, err, ctx.Err())
		require.NotErrorIs(t, err, store.ErrUnknown)
		g.verdict <- (*bbolt.Tx).Commit
		require.NoError(t, <-first)
	})
}

func TestCloseOfABrokenStoreTellsOfLostOutcomes(t *testing.T) {
	panics := false
	s := mustOpen(t, tempFile(t), WithLazyDelay(time.Hour), withCommit(func(tx *bbolt.Tx) error {
		if panics {
			panic("page 7 already freed")
		}
		return tx.Commit()
	}))
	l := mustReserve(t, s, claim("k"), store.Acquired).Lease
	panics = true
	require.NoError(t, s.Complete(t.Context(), l, store.Outcome{Lazy: true}))
	_, err := s.Reserve(t.Context(), claim("new"))
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorIs(t, s.Close(), ErrCorrupt)
}

// No commit ends the group of a lazy claim then, so a list must not wait for one.
func TestListOfABrokenOrClosedStoreWithALazyClaimEnds(t *testing.T) {
	panics := false
	s := mustOpen(t, tempFile(t), WithLazyDelay(time.Hour), withCommit(func(tx *bbolt.Tx) error {
		if panics {
			panic("page 7 already freed")
		}
		return tx.Commit()
	}))
	mustReserve(t, s, claim("k"), store.Acquired)
	panics = true
	lazy := claim("lazy")
	lazy.Lazy = true
	mustReserve(t, s, lazy, store.Acquired)
	_, err := s.Reserve(t.Context(), claim("new"))
	require.ErrorIs(t, err, ErrCorrupt)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	list := func() (last error) {
		for _, last = range s.Pending(ctx, "") {
		}
		return last
	}
	require.ErrorIs(t, list(), ErrCorrupt)
	require.ErrorIs(t, s.Close(), ErrCorrupt)
	require.ErrorIs(t, list(), ErrCorrupt)
}

// No commit follows the failed one, so that nothing else would end the other calls.
func TestCallsThatWaitEndIfTheLastCommitFails(t *testing.T) {
	fails, begun, goOn := false, make(chan struct{}), make(chan struct{})
	s := mustOpen(t, tempFile(t), withCommit(func(tx *bbolt.Tx) error {
		if !fails {
			return tx.Commit()
		}
		begun <- struct{}{}
		<-goOn
		return errors.Join(berrors.ErrMaxSizeReached, tx.Rollback())
	}))
	mustReserve(t, s, claim("first"), store.Acquired)
	fails = true
	first, second, closed := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	reserve := func(key string, done chan error) {
		_, err := s.Reserve(t.Context(), claim(key))
		done <- err
	}
	go reserve("a", first)
	<-begun
	go reserve("b", second)
	waits(t, s, func(g *group) bool { return g.changes == 1 })
	go func() { closed <- s.Close() }()
	require.Eventually(t, func() bool { return s.ready() != nil }, time.Minute, time.Millisecond)
	close(goOn)
	require.NoError(t, hangtest.Received(t, closed), "no lazy change is lost")
	require.ErrorIs(t, hangtest.Received(t, first), store.ErrUnavailable)
	require.ErrorIs(t, hangtest.Received(t, second), store.ErrUnavailable)
}

// A call that is refused must not cancel the commit that others wait for.
func TestAPurgeThatWaitsForATransactionEndsAfterClose(t *testing.T) {
	fake := fakeclock.At(time.Now().UnixNano())
	s := mustOpen(t, tempFile(t), withClock(fake.Read))
	c := claim("expired")
	c.Lease, c.Retention = 0, time.Minute
	mustReserve(t, s, c, store.Acquired)
	fake.Wall.Add(int64(time.Hour))
	tx, _, err := s.Begin(t.Context(), claim("held"))
	require.NoError(t, err)
	purged := make(chan error, 1)
	go func() {
		_, err := s.Purge(t.Context(), 1)
		purged <- err
	}()
	waits(t, s, func(g *group) bool { return g.purge == 1 })
	require.ErrorIs(t, s.Close(), ErrTxOpen)
	_, err = s.Find(t.Context(), c.ID)
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, hangtest.Received(t, purged))
}

// waits returns when in is true of the group that takes changes.
func waits(t *testing.T, s *Store, in func(*group) bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return in(s.current)
	}, time.Minute, time.Millisecond)
}
