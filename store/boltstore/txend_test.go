package boltstore

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// Ways to end a transaction with an outcome.
var settling = map[string]func(store.Tx[*Tx], context.Context, store.Outcome) error{
	"Commit":  store.Tx[*Tx].Commit,
	"Discard": store.Tx[*Tx].Discard,
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
			require.ErrorIs(t, s.View(t.Context(), func(*Tx) error { return nil }), store.ErrUnavailable)
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
		_, again, err := store.Once(t.Context(), s, claim("k"), func(_ context.Context, tx *Tx) (store.Outcome, error) {
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
			require.Empty(t, s.claims)
			require.NoError(t, s.Close())
			s = mustOpen(t, path)
			require.False(t, paid(t, s, "k"))
			mustBegin(t, s, claim("k"), store.Acquired)
		})
	}
}

// ending is the ways to end a transaction.
var ending = map[string]func(store.Tx[*Tx], context.Context) error{
	"Commit": func(tx store.Tx[*Tx], ctx context.Context) error {
		return tx.Commit(ctx, store.Outcome{Result: []byte("r")})
	},
	"Discard": func(tx store.Tx[*Tx], ctx context.Context) error {
		return tx.Discard(ctx, store.Outcome{Failed: true, Result: []byte("r")})
	},
	"Commit of an invalid outcome": func(tx store.Tx[*Tx], ctx context.Context) error {
		return tx.Commit(ctx, store.Outcome{Retention: -1})
	},
	"Commit under an ended context": func(tx store.Tx[*Tx], ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return tx.Commit(ctx, store.Outcome{})
	},
	"Rollback": store.Tx[*Tx].Rollback,
}

// escaped returns bbolt's transaction, which a bucket gives away.
func escaped(t *testing.T, tx *Tx) *bbolt.Tx {
	t.Helper()
	b, err := tx.CreateBucketIfNotExists(accounts)
	require.NoError(t, err)
	return b.Tx()
}

func TestBboltTransactionThatItsUserEndedIsUnknown(t *testing.T) {
	for itself, end := range map[string]func(*bbolt.Tx) error{
		"committed": (*bbolt.Tx).Commit, "rolled back": (*bbolt.Tx).Rollback,
	} {
		for name, settle := range ending {
			t.Run(itself+", "+name, func(t *testing.T) {
				s := mustOpen(t, tempFile(t))
				tx, g := mustBegin(t, s, claim("k"), store.Acquired)
				require.NoError(t, pay(tx.Tx(), "k"))
				require.NoError(t, end(escaped(t, tx.Tx())))
				mustReserve(t, s, claim("k"), store.InFlight)
				err := settle(tx, t.Context())
				require.ErrorIs(t, err, store.ErrTxEnded)
				require.ErrorIs(t, err, store.ErrUnknown)
				r := find(t, s, "k")
				require.True(t, r.OutcomeUnknown())
				require.Greater(t, r.Fence, g.Lease.Fence, "nobody takes it for the transaction's outcome")
				require.Equal(t, itself == "committed", paid(t, s, "k"))
				require.NoError(t, tx.Rollback(t.Context()), "it is over")
				tx, _ = mustBegin(t, s, claim("another"), store.Acquired)
				require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
				checkIndexes(t, s)
			})
		}
	}
	t.Run("also if the record can't be settled", func(t *testing.T) {
		var f fails
		s := mustOpen(t, tempFile(t), f.option())
		tx, _ := mustBegin(t, s, claim("k"), store.Acquired)
		require.NoError(t, escaped(t, tx.Tx()).Commit())
		f.how = refuse
		err := tx.Commit(t.Context(), store.Outcome{})
		require.ErrorIs(t, err, store.ErrTxEnded)
		require.ErrorIs(t, err, store.ErrUnknown)
		require.ErrorContains(t, err, errDisk.Error())
		require.True(t, s.suspect, "the user's commit may have failed late")
		f.how = nil
		mustBegin(t, s, claim("k"), store.Acquired)
	})
	t.Run("and its functions of OnCommit are not called", func(t *testing.T) {
		s := mustOpen(t, tempFile(t))
		tx, _ := mustBegin(t, s, claim("k"), store.Acquired)
		tx.Tx().OnCommit(func() { t.Error("called") })
		require.NoError(t, escaped(t, tx.Tx()).Commit())
		require.ErrorIs(t, tx.Commit(t.Context(), store.Outcome{}), store.ErrTxEnded)
	})
}

func TestFunctionsOfOnCommit(t *testing.T) {
	t.Run("run once, in order, when the ID is free again", func(t *testing.T) {
		s := mustOpen(t, tempFile(t))
		tx, _ := mustBegin(t, s, claim("k"), store.Acquired)
		var ran []int
		tx.Tx().OnCommit(func() { ran = append(ran, 1) })
		tx.Tx().OnCommit(func() {
			ran = append(ran, 2)
			mustReserve(t, s, claim("k"), store.Complete)
		})
		require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
		require.NoError(t, tx.Rollback(t.Context()))
		require.Equal(t, []int{1, 2}, ran)
	})
	t.Run("do not run if nothing of the transaction was committed", func(t *testing.T) {
		var f fails
		s := mustOpen(t, tempFile(t), f.option())
		for name, end := range ending {
			tx, _ := mustBegin(t, s, claim(name), store.Acquired)
			tx.Tx().OnCommit(func() { t.Error("called") })
			f.how = nil
			if name == "Commit" {
				f.how = refuse
			}
			_ = end(tx, t.Context())
		}
	})
	for name, leave := range map[string]func(){"panics": func() { panic(errDisk) }, "ends the goroutine": runtime.Goexit} {
		t.Run("one that "+name+" leaves the record settled and the file free", func(t *testing.T) {
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
		_, _, _ = store.Once(t.Context(), s, claim("k"), func(_ context.Context, tx *Tx) (store.Outcome, error) {
			if err := pay(tx, "k"); err != nil {
				return store.Outcome{}, err
			}
			panic("bug")
		})
	})
	require.False(t, paid(t, s, "k"))
	mustBegin(t, s, claim("k"), store.Acquired)
}
