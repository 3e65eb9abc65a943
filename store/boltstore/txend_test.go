package boltstore

import (
	"context"
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// Ways to end a transaction with an outcome.
var settling = map[string]func(store.Tx[*bbolt.Tx], context.Context, store.Outcome) error{
	"Commit":  store.Tx[*bbolt.Tx].Commit,
	"Discard": store.Tx[*bbolt.Tx].Discard,
}

// Fails is an option that has commits end as its function says, once it is set.
type fails struct{ how func(*bbolt.Tx) error }

func (f *fails) option() Option {
	return withCommit(func(tx *bbolt.Tx) error {
		if f.how != nil {
			return f.how(tx)
		}
		return tx.Commit()
	})
}

func TestFailedCommitOfATransaction(t *testing.T) {
	for name, end := range settling {
		t.Run(name+" that left the file as it was does nothing", func(t *testing.T) {
			var f fails
			s := mustOpen(t, tempFile(t), f.option())
			tx, _ := mustBegin(t, s, claim("k"), store.Acquired)
			require.NoError(t, pay(tx.Tx(), "k"))
			f.how = refuse
			err := end(tx, t.Context(), store.Outcome{})
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.ErrorIs(t, err, errDisk)
			require.NotErrorIs(t, err, store.ErrUnknown)
			require.False(t, s.suspect)
			require.Error(t, s.Check(t.Context()))
			require.Equal(t, uint64(1), s.Stats().Failures)
			f.how = nil
			_, err = s.Find(t.Context(), claim("k").ID)
			require.ErrorIs(t, err, store.ErrNotFound)
			require.False(t, paid(t, s, "k"))

			tx, _ = mustBegin(t, s, claim("k"), store.Acquired)
			require.NoError(t, pay(tx.Tx(), "k"))
			require.NoError(t, end(tx, t.Context(), store.Outcome{}))
			require.NoError(t, s.Check(t.Context()))
			require.Equal(t, name == "Commit", paid(t, s, "k"))
		})
		t.Run(name+" that may be on disk is unknown, and settled by another commit before it is read", func(t *testing.T) {
			var f fails
			s := mustOpen(t, tempFile(t), f.option())
			tx, g := mustBegin(t, s, claim("k"), store.Acquired)
			require.NoError(t, pay(tx.Tx(), "k"))
			f.how = betray
			err := end(tx, t.Context(), store.Outcome{Result: []byte("r")})
			require.ErrorIs(t, err, store.ErrUnknown)
			require.NotErrorIs(t, err, store.ErrUnavailable)
			f.how = refuse
			_, err = s.Find(t.Context(), g.Lease.ID)
			require.ErrorIs(t, err, store.ErrUnavailable, "the file is not believed")
			_, _, err = s.Begin(t.Context(), claim("k"))
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.ErrorIs(t, s.View(t.Context(), func(*bbolt.Tx) error { return nil }), store.ErrUnavailable)
			f.how = nil
			before := s.Stats().Commits
			r := find(t, s, "k")
			require.Equal(t, before+1, s.Stats().Commits)
			require.Equal(t, g.Lease.Fence, r.Fence)
			require.Equal(t, "r", string(r.Result))
			require.Equal(t, name == "Commit", paid(t, s, "k"))
		})
	}
	t.Run("is confirmed by store.Once", func(t *testing.T) {
		f := fails{}
		s := mustOpen(t, tempFile(t), f.option())
		betrayals := 1
		f.how = func(tx *bbolt.Tx) error {
			if betrayals--; betrayals == 0 {
				return betray(tx)
			}
			return tx.Commit()
		}
		_, again, err := store.Once(t.Context(), s, claim("k"), func(_ context.Context, tx *bbolt.Tx) (store.Outcome, error) {
			return store.Outcome{}, pay(tx, "k")
		})
		require.NoError(t, err)
		require.False(t, again)
	})
	t.Run("keeps the changes that wait for the writer", func(t *testing.T) {
		var f fails
		s := mustOpen(t, tempFile(t), f.option(), WithLazyDelay(time.Hour))
		l := mustReserve(t, s, claim("lazy"), store.Acquired).Lease
		tx, _ := mustBegin(t, s, claim("k"), store.Acquired)
		require.NoError(t, s.Complete(t.Context(), l, store.Outcome{Lazy: true}))
		reserved := reserving(t, s, "two-step")
		queued(t, s, 2)
		calls := 0
		f.how = func(tx *bbolt.Tx) error {
			if calls++; calls == 1 {
				return betray(tx)
			}
			return tx.Commit()
		}
		require.ErrorIs(t, tx.Commit(t.Context(), store.Outcome{}), store.ErrUnknown)
		require.NoError(t, <-reserved)
		require.Equal(t, store.StateComplete, find(t, s, "lazy").State)
		require.Equal(t, store.StateComplete, find(t, s, "k").State)
	})
	t.Run("of a file that may not grow does nothing", func(t *testing.T) {
		s := mustOpen(t, tempFile(t), WithMaxSize(256<<10))
		tx, _ := mustBegin(t, s, claim("k"), store.Acquired)
		require.NoError(t, pay(tx.Tx(), "k"))
		err := tx.Commit(t.Context(), store.Outcome{Result: make([]byte, 512<<10)})
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.NotErrorIs(t, err, store.ErrUnknown)
		tx, _ = mustBegin(t, s, claim("k"), store.Acquired)
		require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
		require.False(t, paid(t, s, "k"))
	})
}

func TestPanicInATransactionsCommitEndsTheStore(t *testing.T) {
	for name, end := range settling {
		t.Run(name, func(t *testing.T) {
			var f fails
			path := tempFile(t)
			s := mustOpen(t, path, f.option())
			tx, _ := mustBegin(t, s, claim("k"), store.Acquired)
			require.NoError(t, pay(tx.Tx(), "k"))
			reserved := reserving(t, s, "two-step")
			queued(t, s, 1)
			next := beginning(t.Context(), s, "next")
			holding(t, s, 2)
			f.how = func(*bbolt.Tx) error { panic("page 7 already freed") }
			err := end(tx, t.Context(), store.Outcome{})
			require.ErrorIs(t, err, ErrCorrupt)
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.ErrorIs(t, <-reserved, ErrCorrupt)
			require.ErrorIs(t, (<-next).err, ErrCorrupt)
			require.Empty(t, s.held)
			require.NoError(t, s.Close())
			s = mustOpen(t, path)
			require.False(t, paid(t, s, "k"))
			mustBegin(t, s, claim("k"), store.Acquired)
		})
	}
}

// The engine's transaction is in the caller's hands, who may break the rule.
func TestCallerEndsTheTransactionItself(t *testing.T) {
	commit := (*bbolt.Tx).Commit
	rollback := (*bbolt.Tx).Rollback
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name    string
		itself  func(*bbolt.Tx) error
		end     string
		ctx     context.Context
		want    error
		effect  bool
		settled bool
		nobodys bool // and under a fence of its own
	}{
		{name: "committed, Commit", itself: commit, end: "Commit", want: store.ErrUnknown, effect: true, settled: true},
		{name: "committed, Commit under an ended context", itself: commit, end: "Commit", ctx: canceled, want: store.ErrUnknown, effect: true, settled: true},
		{name: "committed, Discard", itself: commit, end: "Discard", want: store.ErrUnknown, effect: true, settled: true, nobodys: true},
		{name: "committed, Discard under an ended context", itself: commit, end: "Discard", ctx: canceled, want: context.Canceled, effect: true, settled: true, nobodys: true},
		{name: "committed, Rollback", itself: commit, end: "Rollback", want: store.ErrUnknown, effect: true, settled: true, nobodys: true},
		{name: "rolled back, Commit", itself: rollback, end: "Commit", want: store.ErrInvalid},
		{name: "rolled back, Commit under an ended context", itself: rollback, end: "Commit", ctx: canceled, want: context.Canceled},
		{name: "rolled back, Discard", itself: rollback, end: "Discard", settled: true},
		{name: "rolled back, Rollback", itself: rollback, end: "Rollback"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := mustOpen(t, tempFile(t))
			before := s.Stats().Commits
			tx, g := mustBegin(t, s, claim("k"), store.Acquired)
			require.NoError(t, pay(tx.Tx(), "k"))
			require.NoError(t, c.itself(tx.Tx()))
			require.ErrorIs(t, c.itself(tx.Tx()), berrors.ErrTxClosed)
			mustReserve(t, s, claim("k"), store.InFlight)
			ctx := t.Context()
			if c.ctx != nil {
				ctx = c.ctx
			}
			err := tx.Rollback
			if c.end != "Rollback" {
				err = func(ctx context.Context) error {
					return settling[c.end](tx, ctx, store.Outcome{Result: []byte("r")})
				}
			}
			if c.want == nil {
				require.NoError(t, err(ctx))
			} else {
				got := err(ctx)
				require.ErrorIs(t, got, c.want)
				require.ErrorIs(t, got, store.ErrTxEnded)
				require.Equal(t, c.effect, errors.Is(got, store.ErrUnknown), "nobody is told that nothing was done")
			}
			require.Equal(t, c.effect, paid(t, s, "k"))
			commits := before
			if c.effect {
				commits++
			}
			if c.settled {
				commits++
				r := find(t, s, "k")
				require.Equal(t, c.nobodys, r.Fence > g.Lease.Fence)
				require.Equal(t, c.nobodys, r.OutcomeUnknown())
				require.Equal(t, store.StateComplete, r.State)
			} else {
				_, err := s.Find(t.Context(), g.Lease.ID)
				require.ErrorIs(t, err, store.ErrNotFound)
			}
			require.Equal(t, commits, s.Stats().Commits)
			require.Empty(t, s.held)
			tx, _ = mustBegin(t, s, claim("another"), store.Acquired)
			require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
		})
	}
	t.Run("committed, and the record can't be", func(t *testing.T) {
		var f fails
		s := mustOpen(t, tempFile(t), f.option())
		tx, _ := mustBegin(t, s, claim("k"), store.Acquired)
		require.NoError(t, pay(tx.Tx(), "k"))
		require.NoError(t, tx.Tx().Commit())
		f.how = refuse
		err := tx.Commit(t.Context(), store.Outcome{})
		require.ErrorIs(t, err, store.ErrUnknown, "the effect is made")
		require.ErrorIs(t, err, store.ErrTxEnded)
		require.ErrorIs(t, err, errDisk)
	})
	t.Run("committed, and the outcome is invalid", func(t *testing.T) {
		s := mustOpen(t, tempFile(t))
		tx, _ := mustBegin(t, s, claim("k"), store.Acquired)
		require.NoError(t, tx.Tx().Commit())
		err := tx.Commit(t.Context(), store.Outcome{Retention: -1})
		require.ErrorIs(t, err, store.ErrInvalid)
		require.ErrorIs(t, err, store.ErrUnknown)
		require.True(t, find(t, s, "k").OutcomeUnknown())
	})
	t.Run("tried to commit it, and the disk failed late", func(t *testing.T) {
		for name, end := range settling {
			t.Run(name, func(t *testing.T) {
				s := mustOpen(t, tempFile(t))
				tx, _ := mustBegin(t, s, claim("k"), store.Acquired)
				require.NoError(t, pay(tx.Tx(), "k"))
				// What a failed sync of the meta page leaves: it is written, and no function of OnCommit was called.
				require.NoError(t, tx.Tx().Commit())
				tx.(*transaction).committed = false
				err := end(tx, t.Context(), store.Outcome{})
				require.ErrorIs(t, err, store.ErrTxEnded)
				require.ErrorIs(t, err, store.ErrUnknown)
				require.True(t, paid(t, s, "k"), "the file shows it")
				require.Equal(t, name == "Discard", find(t, s, "k").OutcomeUnknown())
			})
		}
	})
	t.Run("tried to commit it, and bbolt panicked", func(t *testing.T) {
		for _, end := range []string{"Commit", "Discard", "Rollback"} {
			t.Run(end, func(t *testing.T) {
				s := mustOpen(t, tempFile(t))
				tx := brokenOff(t, s)
				err := tx.Rollback
				if end != "Rollback" {
					err = func(ctx context.Context) error { return settling[end](tx, ctx, store.Outcome{}) }
				}
				require.ErrorIs(t, err(t.Context()), ErrCorrupt)
				_, err2 := s.Find(t.Context(), claim("k").ID)
				require.ErrorIs(t, err2, ErrCorrupt, "what bbolt has in memory is not believed")
				_ = s.Close()
			})
		}
	})
}

// brokenOff returns a transaction that its caller tried to commit: bbolt panicked in it over a file that was cut short, after
// it had begun to change what it has in memory.
func brokenOff(t *testing.T, s *Store) store.Tx[*bbolt.Tx] {
	t.Helper()
	tx, _ := mustBegin(t, s, claim("many"), store.Acquired)
	b, err := tx.Tx().CreateBucket(accounts)
	require.NoError(t, err)
	for i := range 200 {
		require.NoError(t, b.Put([]byte{byte(i)}, make([]byte, 500)))
	}
	require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))

	tx, _ = mustBegin(t, s, claim("k"), store.Acquired)
	for i := range 5 {
		require.NoError(t, tx.Tx().Bucket(accounts).Delete([]byte{byte(i)}))
	}
	require.NoError(t, os.Truncate(s.path, int64(2*os.Getpagesize())))
	require.ErrorIs(t, guarded(tx.Tx().Commit), ErrCorrupt)
	require.NotNil(t, tx.Tx().DB(), "it is open as yet")
	return tx
}

func TestTransactionThatChangesTheStoresBucketIsRefused(t *testing.T) {
	for name, change := range map[string]func(*bbolt.Tx) error{
		"deleted": func(tx *bbolt.Tx) error { return tx.DeleteBucket(rootName) },
		"replaced": func(tx *bbolt.Tx) error {
			if err := tx.DeleteBucket(rootName); err != nil {
				return err
			}
			_, err := tx.CreateBucket(rootName)
			return err
		},
		"emptied": func(tx *bbolt.Tx) error { return tx.Bucket(rootName).DeleteBucket(recordsName) },
		"renumbered": func(tx *bbolt.Tx) error {
			return tx.Bucket(rootName).Put(formatKey, append([]byte(magic), formatVersion+1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustOpen(t, tempFile(t))
			mustSettle(t, s, "old", store.Outcome{})
			tx, _ := mustBegin(t, s, claim("k"), store.Acquired)
			require.NoError(t, pay(tx.Tx(), "k"))
			require.NoError(t, change(tx.Tx()))
			err := tx.Commit(t.Context(), store.Outcome{})
			require.ErrorIs(t, err, store.ErrInvalid)
			require.NotErrorIs(t, err, ErrCorrupt)
			require.False(t, paid(t, s, "k"))
			require.Equal(t, store.StateComplete, find(t, s, "old").State)
			mustBegin(t, s, claim("k"), store.Acquired)
		})
		t.Run(name+" and discarded is harmless", func(t *testing.T) {
			s := mustOpen(t, tempFile(t))
			tx, _ := mustBegin(t, s, claim("k"), store.Acquired)
			require.NoError(t, change(tx.Tx()))
			require.NoError(t, tx.Discard(t.Context(), store.Outcome{Failed: true}))
			require.Equal(t, store.StateFailed, find(t, s, "k").State)
		})
	}
}

// bbolt calls functions of the caller's after the commit, on the goroutine of Commit.
func TestCallersFunctionAfterTheCommit(t *testing.T) {
	t.Run("runs while the ID is held", func(t *testing.T) {
		s := mustOpen(t, tempFile(t))
		tx, _ := mustBegin(t, s, claim("k"), store.Acquired)
		ran := false
		tx.Tx().OnCommit(func() {
			ran = true
			mustReserve(t, s, claim("k"), store.InFlight)
		})
		require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
		require.True(t, ran)
	})
	for name, leave := range map[string]func(){"panics": func() { panic(errDisk) }, "ends the goroutine": runtime.Goexit} {
		t.Run("that "+name+" leaves the record settled and the file free", func(t *testing.T) {
			s := mustOpen(t, tempFile(t))
			tx, _ := mustBegin(t, s, claim("k"), store.Acquired)
			require.NoError(t, pay(tx.Tx(), "k"))
			tx.Tx().OnCommit(leave)
			raised := make(chan any)
			go func() {
				defer func() { raised <- recover() }()
				_ = tx.Commit(t.Context(), store.Outcome{})
				raised <- errors.New("Commit returned")
			}()
			if got := <-raised; name == "panics" {
				require.Equal(t, errDisk, got)
			} else {
				require.Nil(t, got)
			}
			require.Equal(t, store.StateComplete, find(t, s, "k").State)
			require.True(t, paid(t, s, "k"))
			require.NoError(t, tx.Rollback(t.Context()))
			mustReserve(t, s, claim("another"), store.Acquired)
		})
	}
}

func TestPanicOfTheWorkRollsBack(t *testing.T) {
	s := mustOpen(t, tempFile(t))
	require.PanicsWithValue(t, "bug", func() {
		_, _, _ = store.Once(t.Context(), s, claim("k"), func(_ context.Context, tx *bbolt.Tx) (store.Outcome, error) {
			if err := pay(tx, "k"); err != nil {
				return store.Outcome{}, err
			}
			panic("bug")
		})
	})
	require.False(t, paid(t, s, "k"))
	mustBegin(t, s, claim("k"), store.Acquired)
}
