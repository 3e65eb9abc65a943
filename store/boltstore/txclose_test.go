package boltstore

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

func TestCloseWithAnOpenTransaction(t *testing.T) {
	t.Run("says so at once, refuses what it would settle, and closes the file when it is over", func(t *testing.T) {
		for name, end := range settling {
			t.Run(name, func(t *testing.T) {
				path := tempFile(t)
				s := mustOpen(t, path, WithLazyDelay(time.Hour))
				l := mustReserve(t, s, claim("lazy"), store.Acquired).Lease
				tx, _ := mustBegin(t, s, claim("k"), store.Acquired)
				require.NoError(t, pay(tx.Tx(), "k"))
				require.NoError(t, s.Complete(t.Context(), l, store.Outcome{Lazy: true}))
				queuedUp := reserving(t, s, "queued")
				queued(t, s, 2)
				second := beginning(t.Context(), s, "second")
				holding(t, s, 2)
				woken := make(chan error, 1)
				go func() { woken <- s.Wait(t.Context(), claim("k").ID, 0) }()
				waiting(t, s, 1)

				require.ErrorIs(t, s.Close(), ErrTxOpen)
				require.ErrorIs(t, s.Close(), ErrTxOpen)
				require.ErrorIs(t, (<-second).err, store.ErrUnavailable)
				require.ErrorIs(t, <-woken, store.ErrUnavailable)
				_, _, err := s.Begin(t.Context(), claim("another"))
				require.ErrorIs(t, err, store.ErrUnavailable)
				require.ErrorIs(t, s.View(t.Context(), func(*Tx) error { return nil }), store.ErrUnavailable)
				_, err = Open(path)
				require.ErrorIs(t, err, ErrInUse, "the file is not given up under the transaction")

				require.NoError(t, pay(tx.Tx(), "k"), "the engine's transaction is sound as yet")
				require.ErrorIs(t, end(tx, t.Context(), store.Outcome{}), store.ErrUnavailable)
				require.NoError(t, <-queuedUp, "what was queued is committed")
				require.NoError(t, s.Close())
				s = mustOpen(t, path)
				require.False(t, paid(t, s, "k"))
				_, err = s.Find(t.Context(), claim("k").ID)
				require.ErrorIs(t, err, store.ErrNotFound)
				require.Equal(t, store.StateComplete, find(t, s, "lazy").State)
				require.Equal(t, store.StatePending, find(t, s, "queued").State)
			})
		}
	})
	t.Run("answers who waits for it as the owner of what stood before", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, c := mustOpen(t, tempFile(t)), claim("k")
			c.Lease = 0
			l := mustReserve(t, s, c, store.Acquired).Lease
			tx, _ := mustBegin(t, s, c, store.TakenOver)
			answered := make(chan error, 1)
			go func() { answered <- s.Complete(t.Context(), l, store.Outcome{}) }()
			synctest.Wait()
			require.ErrorIs(t, s.Close(), ErrTxOpen)
			require.ErrorIs(t, <-answered, store.ErrUnavailable)
			require.NoError(t, tx.Rollback(t.Context()))
			require.NoError(t, s.Close())
		})
	})
	t.Run("gives way to a rollback", func(t *testing.T) {
		s := mustOpen(t, tempFile(t))
		tx, _ := mustBegin(t, s, claim("k"), store.Acquired)
		require.ErrorIs(t, s.Close(), ErrTxOpen)
		require.NoError(t, tx.Rollback(t.Context()))
		require.NoError(t, s.Close())
	})
	t.Run("waits for one that is being committed", func(t *testing.T) {
		s, g := gated(t)
		tx, _ := mustBegin(t, s, claim("k"), store.Acquired)
		require.NoError(t, pay(tx.Tx(), "k"))
		committed, closed := make(chan error, 1), make(chan error, 1)
		go func() { committed <- tx.Commit(t.Context(), store.Outcome{}) }()
		<-g.arrived
		go func() { closed <- s.Close() }()
		<-s.quit
		g.verdict <- (*bbolt.Tx).Commit
		require.NoError(t, <-committed)
		require.NoError(t, <-closed)
		require.True(t, paid(t, mustOpen(t, s.path), "k"))
	})
	t.Run("that its user has ended says so", func(t *testing.T) {
		s := mustOpen(t, tempFile(t))
		tx, _ := mustBegin(t, s, claim("k"), store.Acquired)
		require.NoError(t, escaped(t, tx.Tx()).Commit())
		require.ErrorIs(t, s.Close(), ErrTxOpen)
		err := tx.Commit(t.Context(), store.Outcome{})
		require.ErrorIs(t, err, store.ErrTxEnded)
		require.ErrorIs(t, err, store.ErrUnknown)
		require.ErrorIs(t, err, store.ErrUnavailable, "the record can't be settled")
		require.NoError(t, s.Close())
	})
}

func TestViewSeesWhatIsCommitted(t *testing.T) {
	s := mustOpen(t, tempFile(t))
	seen := func() (found bool) {
		require.NoError(t, s.View(t.Context(), func(tx *Tx) error {
			require.False(t, tx.Writable())
			b := tx.Bucket(accounts)
			found = b != nil && b.Get([]byte("k")) != nil
			return nil
		}))
		return found
	}
	tx, _ := mustBegin(t, s, claim("k"), store.Acquired)
	require.NoError(t, pay(tx.Tx(), "k"))
	require.False(t, seen())
	require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
	require.True(t, seen())
	require.Equal(t, errDisk, s.View(t.Context(), func(*Tx) error { return errDisk }), "f's error is returned as it is")
	require.PanicsWithValue(t, "bug", func() { _ = s.View(t.Context(), func(*Tx) error { panic("bug") }) })
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.View(canceled, func(*Tx) error { return nil }), context.Canceled)
	require.NoError(t, s.Close(), "no read transaction is left open")
}
