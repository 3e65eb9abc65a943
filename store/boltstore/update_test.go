package boltstore

import (
	"context"
	"errors"
	"testing"

	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

func TestUpdateIsOneCommitOnDisk(t *testing.T) {
	path := tempFile(t)
	s := mustOpen(t, path)
	before := s.Stats()
	require.NoError(t, s.Update(t.Context(), func(tx *Tx) error { return pay(tx, "k") }))
	require.Equal(t, before.Commits+1, s.Stats().Commits)
	require.NoError(t, s.Close())
	require.True(t, paid(t, mustOpen(t, path), "k"))
}

func TestUpdateThatFailsWritesNothing(t *testing.T) {
	s := mustOpen(t, tempFile(t))
	refusal := errors.New("no")
	t.Run("an error is returned as it is", func(t *testing.T) {
		err := s.Update(t.Context(), func(tx *Tx) error { return errors.Join(pay(tx, "k"), refusal) })
		require.ErrorIs(t, err, refusal)
		require.NotErrorIs(t, err, store.ErrUnavailable)
	})
	t.Run("a panic goes on", func(t *testing.T) {
		require.PanicsWithValue(t, "boom", func() {
			_ = s.Update(t.Context(), func(tx *Tx) error { _ = pay(tx, "k"); panic("boom") })
		})
	})
	t.Run("a refused Rollback is a fault of the function", func(t *testing.T) {
		err := s.Update(t.Context(), func(tx *Tx) error {
			_ = tx.Rollback()
			return pay(tx, "k")
		})
		require.ErrorIs(t, err, store.ErrTxEnded)
		require.NotErrorIs(t, err, store.ErrUnknown)
	})
	t.Run("a transaction that its user has ended is unknown", func(t *testing.T) {
		err := s.Update(t.Context(), func(tx *Tx) error { return errors.Join(escaped(t, tx).Rollback(), refusal) })
		require.ErrorIs(t, err, store.ErrTxEnded)
		require.ErrorIs(t, err, store.ErrUnknown)
		require.ErrorIs(t, err, refusal)
	})
	t.Run("an ended context begins nothing", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, s.Update(ctx, func(*Tx) error { panic("it ran") }), context.Canceled)
	})
	require.False(t, paid(t, s, "k"))
	// The write lock is free, and the store works.
	mustSettle(t, s, "after", store.Outcome{})
	require.NoError(t, s.Update(t.Context(), func(tx *Tx) error { return pay(tx, "k") }))
}

func TestUpdateAlternatesWithRecordsAndTransactions(t *testing.T) {
	s := mustOpen(t, tempFile(t))
	tx, _ := mustBegin(t, s, claim("held"), store.Acquired)
	waits, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Update(waits, func(*Tx) error { panic("it came between") }) }()
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
	go func() {
		for i := range 50 {
			if err := s.Update(t.Context(), func(tx *Tx) error { return pay(tx, string(rune('a'+i))) }); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for i := range 50 {
		mustSettle(t, s, string(rune('a'+i)), store.Outcome{})
	}
	require.NoError(t, <-done)
	g := mustReserve(t, s, claim("last"), store.Acquired)
	require.EqualValues(t, 52, g.Lease.Fence, "an Update took a fence away, or gave one twice")
}

func TestUpdateWhoseCommitIsUnknownIsCertainBeforeTheNext(t *testing.T) {
	fails := false
	lost := errors.New("fdatasync: input/output error")
	s := mustOpen(t, tempFile(t), withCommit(func(tx *bbolt.Tx) error {
		if err := tx.Commit(); err != nil || !fails {
			return err
		}
		fails = false
		return lost
	}))
	fails = true
	err := s.Update(t.Context(), func(tx *Tx) error { return pay(tx, "k") })
	require.ErrorIs(t, err, store.ErrUnknown)
	require.ErrorIs(t, err, lost)
	before := s.Stats().Commits
	require.NoError(t, s.Update(t.Context(), func(tx *Tx) error { return pay(tx, "l") }))
	require.Equal(t, before+2, s.Stats().Commits, "one that makes the file certain, and its own")
	require.True(t, paid(t, s, "k"))
	require.True(t, paid(t, s, "l"))
}

func TestUpdateWhoseCommitFailsWritesNothing(t *testing.T) {
	full := errors.New("no space left on device")
	s := mustOpen(t, tempFile(t))
	s.writing <- struct{}{} // the writer must not commit meanwhile
	s.commit = func(tx *bbolt.Tx) error { return errors.Join(full, tx.Rollback()) }
	<-s.writing
	err := s.Update(t.Context(), func(tx *Tx) error { return pay(tx, "k") })
	require.ErrorIs(t, err, full)
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.False(t, paid(t, s, "k"))
}

func TestPanicAfterAnUpdateWasCommittedGoesOnAndBreaksNothing(t *testing.T) {
	s := mustOpen(t, tempFile(t))
	require.PanicsWithValue(t, "boom", func() {
		_ = s.Update(t.Context(), func(tx *Tx) error {
			tx.OnCommit(func() { panic("boom") })
			return pay(tx, "k")
		})
	})
	require.True(t, paid(t, s, "k"))
	mustSettle(t, s, "after", store.Outcome{})
}

func TestCloseWaitsForAnUpdate(t *testing.T) {
	s := mustOpen(t, tempFile(t))
	began, closed := make(chan struct{}), make(chan error, 1)
	updated := make(chan error, 1)
	go func() {
		updated <- s.Update(t.Context(), func(tx *Tx) error {
			close(began)
			<-s.quit
			return pay(tx, "k")
		})
	}()
	<-began
	go func() { closed <- s.Close() }()
	require.NoError(t, <-updated)
	require.NoError(t, <-closed)
	require.ErrorIs(t, s.Update(t.Context(), func(*Tx) error { panic("it ran") }), store.ErrUnavailable)
	require.True(t, paid(t, mustOpen(t, s.path), "k"))
}
