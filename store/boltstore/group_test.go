package boltstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// A gate holds commits until they are let through, with a verdict of its own.
type gate struct {
	arrived chan struct{}
	verdict chan func(*bbolt.Tx) error
}

func newGate() *gate {
	return &gate{make(chan struct{}), make(chan func(*bbolt.Tx) error)}
}

func (g *gate) commit(tx *bbolt.Tx) error {
	g.arrived <- struct{}{}
	return (<-g.verdict)(tx)
}

// next waits for a commit and lets it through.
func (g *gate) next(verdict func(*bbolt.Tx) error) {
	<-g.arrived
	g.verdict <- verdict
}

var errDisk = errors.New("disk on fire")

// refuse leaves the file as it was.
func refuse(tx *bbolt.Tx) error { return errors.Join(errDisk, tx.Rollback()) }

// betray commits and says that it could not, as a failed sync of the meta page does.
func betray(tx *bbolt.Tx) error { return errors.Join(errDisk, tx.Commit()) }

// queued waits until the group that forms has n changes.
func queued(t *testing.T, s *Store, n uint64) {
	t.Helper()
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.current.changes == n
	}, time.Minute, time.Millisecond)
}

// gated opens a store whose every commit waits at the gate. Closing it lets the rest through.
func gated(t *testing.T) (*Store, *gate) {
	t.Helper()
	g := newGate()
	s := mustOpen(t, tempFile(t), withCommit(g.commit), WithLazyDelay(time.Hour))
	t.Cleanup(func() {
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				select {
				case <-g.arrived:
					g.verdict <- (*bbolt.Tx).Commit
				case <-stop:
					return
				}
			}
		})
		_ = s.Close()
		close(stop)
		wg.Wait()
	})
	return s, g
}

// blocked starts a Reserve whose commit waits at the gate.
func blocked(t *testing.T, s *Store, g *gate, key string) <-chan error {
	t.Helper()
	done := reserving(t, s, key)
	<-g.arrived
	return done
}

func reserving(t *testing.T, s *Store, key string) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := s.Reserve(t.Context(), claim(key))
		done <- err
	}()
	return done
}

func TestCallersBehindACommitShareTheNext(t *testing.T) {
	s, g := gated(t)
	first := blocked(t, s, g, "first")
	before := s.Stats()
	var rest []<-chan error
	for i := range 64 {
		rest = append(rest, reserving(t, s, fmt.Sprint(i)))
	}
	queued(t, s, 64)
	g.verdict <- (*bbolt.Tx).Commit
	require.NoError(t, <-first)
	g.next((*bbolt.Tx).Commit)
	for _, done := range rest {
		require.NoError(t, <-done)
	}
	after := s.Stats()
	require.Equal(t, uint64(2), after.Commits-before.Commits)
	require.Equal(t, uint64(1), after.Groups-before.Groups)
	require.Equal(t, uint64(64), after.Transitions-before.Transitions)
	require.Equal(t, uint64(64), after.Largest)
}

func TestLostTransitionDoesNotFailItsGroup(t *testing.T) {
	s, g := gated(t)
	first := blocked(t, s, g, "first")
	second := reserving(t, s, "second")
	queued(t, s, 1)
	require.ErrorIs(t, s.Release(t.Context(), store.Lease{ID: claim("other").ID, Fence: 1}), store.ErrLost)
	g.verdict <- (*bbolt.Tx).Commit
	g.next((*bbolt.Tx).Commit)
	require.NoError(t, <-first)
	require.NoError(t, <-second)
}

func TestVerdictsWithoutAChangeCommitNothing(t *testing.T) {
	s := mustOpen(t, tempFile(t))
	mustReserve(t, s, claim("pending"), store.Acquired)
	mustSettle(t, s, "complete", store.Outcome{Result: []byte("result")})
	mustSettle(t, s, "failed", store.Outcome{Failed: true})
	before := s.Stats()
	mustReserve(t, s, claim("pending"), store.InFlight)
	mustReserve(t, s, claim("complete"), store.Complete)
	mustReserve(t, s, claim("failed"), store.Failed)
	other := claim("complete")
	other.Fingerprint = store.Raw("POST", "/refunds", "", []byte("another body"))
	mustReserve(t, s, other, store.Mismatch)
	_, err := s.Find(t.Context(), other.ID)
	require.NoError(t, err)
	require.ErrorIs(t, s.Complete(t.Context(), store.Lease{ID: other.ID}, store.Outcome{}), store.ErrLost)
	require.Equal(t, before, s.Stats())
}

func TestAnswerWaitsForTheDurableChangeItSaw(t *testing.T) {
	t.Run("and stands when that is committed", func(t *testing.T) {
		s, g := gated(t)
		first := blocked(t, s, g, "k")
		second := make(chan store.Verdict, 1)
		go func() {
			grant, err := s.Reserve(t.Context(), claim("k"))
			if err == nil {
				second <- grant.Verdict
			}
			close(second)
		}()
		g.verdict <- (*bbolt.Tx).Commit
		require.NoError(t, <-first)
		require.Equal(t, store.InFlight, <-second)
	})
	t.Run("and is found anew when that fails", func(t *testing.T) {
		s, g := gated(t)
		first := blocked(t, s, g, "k")
		seen := make(chan error, 1)
		go func() {
			_, err := s.Find(t.Context(), claim("k").ID)
			seen <- err
		}()
		g.verdict <- refuse
		require.ErrorIs(t, <-first, store.ErrUnavailable)
		require.ErrorIs(t, <-seen, store.ErrNotFound)
	})
}

// A caller may reuse its buffer when the call has returned, also if the outcome is unknown.
func TestAQueuedChangeKeepsNoBufferOfItsCaller(t *testing.T) {
	s := mustOpen(t, tempFile(t))
	l := mustReserve(t, s, claim("k"), store.Acquired).Lease
	s.writing <- struct{}{} // the writer must not commit meanwhile
	meta := []byte("first")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Extend(ctx, l, time.Hour, meta) }()
	queued(t, s, 1)
	cancel()
	require.ErrorIs(t, <-done, store.ErrUnknown)
	copy(meta, "other")
	<-s.writing
	require.Equal(t, "first", string(find(t, s, "k").Meta))
}

func TestFailedCommit(t *testing.T) {
	t.Run("fails its members and no later ones", func(t *testing.T) {
		s, g := gated(t)
		first := blocked(t, s, g, "first")
		second := reserving(t, s, "second")
		queued(t, s, 1)
		g.verdict <- refuse
		err := <-first
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.ErrorIs(t, err, errDisk)
		require.NotErrorIs(t, err, store.ErrUnknown)
		require.Error(t, s.Check(t.Context()))
		g.next((*bbolt.Tx).Commit)
		require.NoError(t, <-second)
		require.NoError(t, s.Check(t.Context()))
		_, err = s.Find(t.Context(), claim("first").ID)
		require.ErrorIs(t, err, store.ErrNotFound)
		require.Equal(t, uint64(1), s.Stats().Failures)
	})
	t.Run("that may be on disk is unknown, and settled by another commit before it is read", func(t *testing.T) {
		s, g := gated(t)
		first := blocked(t, s, g, "k")
		g.verdict <- betray
		err := <-first
		require.ErrorIs(t, err, store.ErrUnknown)
		require.NotErrorIs(t, err, store.ErrUnavailable)

		found := make(chan error, 1)
		go func() {
			_, err := s.Find(t.Context(), claim("k").ID)
			found <- err
		}()
		g.next(refuse)
		require.ErrorIs(t, <-found, store.ErrUnavailable)
		before := s.Stats().Commits
		go func() {
			_, err := s.Find(t.Context(), claim("k").ID)
			found <- err
		}()
		g.next((*bbolt.Tx).Commit)
		require.NoError(t, <-found)
		require.Equal(t, before+1, s.Stats().Commits)
	})
	t.Run("keeps lazy changes that were acknowledged", func(t *testing.T) {
		s, g := gated(t)
		first := blocked(t, s, g, "k")
		g.verdict <- (*bbolt.Tx).Commit
		require.NoError(t, <-first)
		r := find(t, s, "k")
		require.NoError(t, s.Complete(t.Context(), r.Lease(), store.Outcome{Result: []byte("lazy"), Lazy: true}))
		for _, verdict := range []func(*bbolt.Tx) error{refuse, betray} {
			second := blocked(t, s, g, "second")
			g.verdict <- verdict
			require.Error(t, <-second)
		}
		third := reserving(t, s, "third")
		g.next((*bbolt.Tx).Commit) // settles what the last one left open
		g.next((*bbolt.Tx).Commit)
		require.NoError(t, <-third)
		require.Equal(t, "lazy", string(find(t, s, "k").Result))
		require.Empty(t, s.overlay)
	})
}

func TestMayBeWritten(t *testing.T) {
	writeFailed := fmt.Errorf("wrapped: %w", &fs.PathError{Op: "write", Err: syscall.ENOSPC})
	for _, c := range []struct {
		name    string
		err     error
		pages   int64
		visible bool
		want    bool
	}{
		{"nothing was written", errDisk, 0, false, false},
		{"a data page could not be written", writeFailed, 3, false, false},
		{"the meta page could not be written and is the old one", writeFailed, 9, false, false},
		{"the meta page could not be written whole and yet is the new one", writeFailed, 9, true, true},
		{"a sync failed and the old state shows", syscall.EIO, 9, false, true},
		{"a sync failed and the new state shows", syscall.EIO, 9, true, true},
		{"the file may not grow", berrors.ErrMaxSizeReached, 0, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, mayBeWritten(c.err, c.pages, c.visible))
		})
	}
}

func find(t *testing.T, s *Store, key string) store.Record {
	t.Helper()
	r, err := s.Find(t.Context(), claim(key).ID)
	require.NoError(t, err)
	return r
}

func TestMaxSizeRefusesAndChangesNothing(t *testing.T) {
	path := tempFile(t)
	s := mustOpen(t, path, WithMaxSize(256<<10))
	mustSettle(t, s, "small", store.Outcome{Result: []byte("result")})
	big := claim("big")
	big.Meta = make([]byte, 512<<10)
	_, err := s.Reserve(t.Context(), big)
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.NotErrorIs(t, err, store.ErrUnknown)
	mustReserve(t, s, claim("another"), store.Acquired)
	require.NoError(t, s.Close())
	s = mustOpen(t, path) // which checks its pages
	require.Equal(t, "result", string(find(t, s, "small").Result))
}

func TestLazyOutcome(t *testing.T) {
	t.Run("is seen at once and committed with the next durable change, in order", func(t *testing.T) {
		s, g := gated(t)
		for _, key := range []string{"a", "b"} {
			done := blocked(t, s, g, key)
			g.verdict <- (*bbolt.Tx).Commit
			require.NoError(t, <-done)
		}
		a := find(t, s, "a")
		before := s.Stats()
		require.NoError(t, s.Complete(t.Context(), a.Lease(), store.Outcome{Result: []byte("lazy"), Lazy: true}))
		require.ErrorIs(t, s.Complete(t.Context(), a.Lease(), store.Outcome{Lazy: true}), store.ErrLost)
		mustReserve(t, s, claim("a"), store.Complete)
		require.Equal(t, "lazy", string(find(t, s, "a").Result))
		require.Equal(t, []string{"b"}, pendingKeys(t, s, ""))
		require.Equal(t, before, s.Stats())

		forgotten := make(chan error, 1)
		go func() { forgotten <- s.Forget(t.Context(), a.Lease()) }()
		g.next((*bbolt.Tx).Commit)
		require.NoError(t, <-forgotten)
		require.Equal(t, before.Commits+1, s.Stats().Commits)
		_, err := s.Find(t.Context(), a.ID)
		require.ErrorIs(t, err, store.ErrNotFound)
	})
	t.Run("does not wait for a commit that runs", func(t *testing.T) {
		s, g := gated(t)
		done := blocked(t, s, g, "a")
		g.verdict <- (*bbolt.Tx).Commit
		require.NoError(t, <-done)
		a := find(t, s, "a")
		running := blocked(t, s, g, "b")
		require.NoError(t, s.Complete(t.Context(), a.Lease(), store.Outcome{Lazy: true}))
		require.Equal(t, store.StateComplete, find(t, s, "a").State)
		g.verdict <- (*bbolt.Tx).Commit
		require.NoError(t, <-running)
	})
	t.Run("gets a commit of its own after the delay", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := mustOpen(t, tempFile(t))
			g := mustReserve(t, s, claim("k"), store.Acquired)
			time.Sleep(time.Second)
			before := s.Stats().Commits
			require.NoError(t, s.Complete(t.Context(), g.Lease, store.Outcome{Lazy: true}))
			time.Sleep(10*time.Millisecond - time.Nanosecond)
			require.Equal(t, before, s.Stats().Commits)
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			require.Equal(t, before+1, s.Stats().Commits)
			require.NoError(t, s.Close())
		})
	})
	t.Run("is committed by Close", func(t *testing.T) {
		path := tempFile(t)
		s := mustOpen(t, path, WithLazyDelay(time.Hour))
		l := mustSettle(t, s, "k", store.Outcome{Result: []byte("lazy"), Lazy: true})
		require.NoError(t, s.Close())
		s = mustOpen(t, path)
		require.Equal(t, l.Fence, find(t, s, "k").Fence)
		mustReserve(t, s, claim("k"), store.Complete)
	})
	t.Run("that Close can't commit is an error of Close", func(t *testing.T) {
		failing := false
		s := mustOpen(t, tempFile(t), WithLazyDelay(time.Hour), withCommit(func(tx *bbolt.Tx) error {
			if failing {
				return refuse(tx)
			}
			return tx.Commit()
		}))
		g := mustReserve(t, s, claim("k"), store.Acquired)
		failing = true
		require.NoError(t, s.Complete(t.Context(), g.Lease, store.Outcome{Lazy: true}))
		require.ErrorIs(t, s.Close(), errDisk)
		require.ErrorIs(t, s.Close(), errDisk)
	})
}
