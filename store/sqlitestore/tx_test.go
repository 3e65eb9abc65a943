package sqlitestore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/sqlitestore"
	"github.com/redo-go/redo/store/sqltx"
)

// begun is an open transaction that has had one effect.
func begun(t *testing.T, c store.Claim) (*sqlitestore.Store, string, store.Tx[*sqltx.Tx], store.Grant) {
	t.Helper()
	path := newFile(t)
	st := open(t, path)
	sqlExec(t, path, "CREATE TABLE effects (key TEXT NOT NULL)")
	tx, g, err := st.Begin(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, store.Acquired, g.Verdict)
	run(t, tx, "INSERT INTO effects VALUES ('k')")
	return st, path, tx, g
}

func run(t *testing.T, tx store.Tx[*sqltx.Tx], text string) {
	t.Helper()
	_, err := tx.Tx().ExecContext(t.Context(), text)
	require.NoError(t, err, text)
}

func effects(t *testing.T, path string) (n int) {
	t.Helper()
	db := connect(t, path)
	defer db.Close()
	require.NoError(t, db.QueryRow("SELECT count(*) FROM effects").Scan(&n))
	return n
}

var endings = map[string]func(tx store.Tx[*sqltx.Tx], ctx context.Context) error{
	"Commit":   func(tx store.Tx[*sqltx.Tx], ctx context.Context) error { return tx.Commit(ctx, store.Outcome{}) },
	"Discard":  func(tx store.Tx[*sqltx.Tx], ctx context.Context) error { return tx.Discard(ctx, store.Outcome{}) },
	"Rollback": store.Tx[*sqltx.Tx].Rollback,
}

func TestWorkThatAStatementCommittedIsOfUnknownOutcome(t *testing.T) {
	for name, end := range endings {
		for _, text := range []string{"COMMIT", "COMMIT; BEGIN", "COMMIT; BEGIN; INSERT INTO effects VALUES ('more')"} {
			t.Run(name+" after "+text, func(t *testing.T) {
				st, path, tx, g := begun(t, unleased("k"))
				run(t, tx, text)
				err := end(tx, t.Context())
				require.ErrorIs(t, err, store.ErrTxEnded)
				require.ErrorIs(t, err, store.ErrUnknown)
				require.Equal(t, 1, effects(t, path))
				again := reserve(t, st, unleased("k"), store.Complete)
				require.True(t, again.Record.OutcomeUnknown())
				require.Greater(t, again.Record.Fence, g.Lease.Fence)
				reserve(t, st, unleased("another"), store.Acquired)
			})
		}
	}
}

// SQLite rolls the whole transaction back if a statement that writes is interrupted. That is no fault of the program.
// Nothing that the program writes later is kept.
func TestAnInterruptedStatementLeavesTheIDFree(t *testing.T) {
	const slow = `INSERT INTO effects WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n`
	for name, end := range endings {
		for _, reason := range []error{context.DeadlineExceeded, context.Canceled} {
			t.Run(fmt.Sprint(name, " after ", reason), func(t *testing.T) {
				st, path, tx, _ := begun(t, unleased("k"))
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				defer cancel()
				if reason == context.Canceled { //nolint:errorlint // this very value
					ctx, cancel = context.WithCancel(t.Context())
					defer time.AfterFunc(20*time.Millisecond, cancel).Stop()
				}
				_, err := tx.Tx().ExecContext(ctx, slow)
				require.ErrorIs(t, err, reason)
				run(t, tx, "INSERT INTO effects VALUES ('later')")
				switch err := end(tx, t.Context()); name {
				case "Rollback":
					require.NoError(t, err)
				default:
					require.ErrorIs(t, err, store.ErrUnavailable)
					require.NotErrorIs(t, err, store.ErrUnknown)
				}
				require.Zero(t, effects(t, path))
				reserve(t, st, unleased("k"), store.Acquired)
			})
		}
	}
}

// The failed statement is not of the store's transaction, which has ended. Something of it may be committed.
func TestAnInterruptedStatementAfterTheEndLeavesTheOutcomeUnknown(t *testing.T) {
	const slow = `INSERT INTO effects WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n`
	for _, test := range []struct {
		text string
		left time.Duration
	}{{"COMMIT", 0}, {"COMMIT", 20 * time.Millisecond}, {"COMMIT; BEGIN", 20 * time.Millisecond}, {"ROLLBACK", 0}} {
		for name, end := range endings {
			t.Run(fmt.Sprint(name, " after ", test.text, " and ", test.left), func(t *testing.T) {
				st, _, tx, _ := begun(t, unleased("k"))
				run(t, tx, test.text)
				ctx, cancel := context.WithTimeout(t.Context(), test.left)
				defer cancel()
				_, err := tx.Tx().ExecContext(ctx, slow)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				err = end(tx, t.Context())
				require.ErrorIs(t, err, store.ErrTxEnded)
				require.ErrorIs(t, err, store.ErrUnknown)
				require.True(t, reserve(t, st, unleased("k"), store.Complete).Record.OutcomeUnknown())
			})
		}
	}
}

func TestARefusedRollbackUndoesTheWork(t *testing.T) {
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			st, path, tx, _ := begun(t, unleased("k"))
			require.ErrorIs(t, tx.Tx().Rollback(), store.ErrTxEnded)
			err := end(tx, t.Context())
			if name == "Rollback" {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, store.ErrTxEnded)
				require.NotErrorIs(t, err, store.ErrUnknown)
			}
			require.Zero(t, effects(t, path))
			reserve(t, st, unleased("k"), store.Acquired)
		})
	}
}

func TestARefusedCommitChangesNothing(t *testing.T) {
	st, path, tx, g := begun(t, unleased("k"))
	require.ErrorIs(t, tx.Tx().Commit(), store.ErrTxEnded)
	require.Zero(t, effects(t, path))
	require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
	require.Equal(t, 1, effects(t, path))
	require.Equal(t, g.Lease.Fence, reserve(t, st, unleased("k"), store.Complete).Record.Fence)
}

func TestReserveOfAHeldIDIsInFlightAtOnce(t *testing.T) {
	st, path, tx, _ := begun(t, unleased("k"))
	other := open(t, path)
	for _, handle := range []*sqlitestore.Store{st, other} {
		require.Equal(t, store.ID{Scope: "scope", Key: "k"}, reserve(t, handle, claim("k"), store.InFlight).Record.ID)
	}
	require.NoError(t, tx.Rollback(t.Context()))
	reserve(t, other, claim("k"), store.Acquired)
}

func TestATransactionOutlivesClose(t *testing.T) {
	st, path, tx, g := begun(t, unleased("k"))
	require.NoError(t, st.Close())
	require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
	require.Equal(t, 1, effects(t, path))
	require.Equal(t, g.Lease.Fence, reserve(t, open(t, path), unleased("k"), store.Complete).Record.Fence)
}

// A fence's draw is not synced before its transaction is. A power failure can lose it, and must not give it out again.
func TestFenceThatAPowerFailureLostIsNotGivenOutAgain(t *testing.T) {
	path := newFile(t)
	st := open(t, path)
	last := reserve(t, st, claim("first"), store.Acquired).Lease.Fence
	var lost uint64
	for range 3 {
		tx, g, err := st.Begin(t.Context(), unleased("k"))
		require.NoError(t, err)
		require.NoError(t, tx.Rollback(t.Context()))
		lost = g.Lease.Fence
	}
	require.NoError(t, st.Close())
	sqlExec(t, path, "UPDATE redo_fence SET last = ?", last)
	require.Greater(t, reserve(t, open(t, path), unleased("k"), store.Acquired).Lease.Fence, lost)
}
