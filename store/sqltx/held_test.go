package sqltx_test

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/store/sqltx"
)

var errDeadlock = errors.New("deadlock")

// A holder's transactions have ended before their Commit and Rollback. Its engine rolls back after errDeadlock.
type holder struct {
	sqltx.Engine
	tx       *sql.Tx
	restarts func()
}

func (holder) Gone(err error) bool { return err == nil }
func (e holder) Rollback()         { _ = e.tx.Rollback() }

func (e holder) Restart(err error) bool {
	if e.restarts != nil {
		e.restarts()
	}
	return errors.Is(err, errDeadlock)
}

// hold returns a transaction that holds the record of a claim over a store that has none.
func hold(t *testing.T, restarts func()) (*sqltx.Held, *engine, store.Store) {
	t.Helper()
	e := &engine{}
	db := sql.OpenDB(e)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	tx, err := db.Begin()
	require.NoError(t, err)
	st := memstore.New()
	c := store.Claim{ID: id, Retention: store.Forever}
	h, err := sqltx.Hold(t.Context(), st, tx, c, 1, holder{tx: tx, restarts: restarts})
	require.NoError(t, err)
	return h, e, st
}

var settlings = map[string]func(h *sqltx.Held, ctx context.Context) error{
	"Commit":   func(h *sqltx.Held, ctx context.Context) error { return h.Commit(ctx, store.Outcome{}) },
	"Discard":  func(h *sqltx.Held, ctx context.Context) error { return h.Discard(ctx, store.Outcome{Failed: true}) },
	"Rollback": (*sqltx.Held).Rollback,
}

// The user may have ended it by a COMMIT or a ROLLBACK, and later statements may be committed.
func TestATransactionThatItsUserEndedIsUnknown(t *testing.T) {
	for name, end := range settlings {
		t.Run(name, func(t *testing.T) {
			h, _, st := hold(t, nil)
			err := end(h, t.Context())
			require.ErrorIs(t, err, store.ErrTxEnded)
			require.ErrorIs(t, err, store.ErrUnknown)
			r, err := st.Find(t.Context(), id)
			require.NoError(t, err)
			require.True(t, r.OutcomeUnknown())
		})
	}
}

func TestATransactionThatItsEngineRolledBackIsFree(t *testing.T) {
	statements := map[string]func(tx *sqltx.Tx) error{
		"Exec":     func(tx *sqltx.Tx) error { _, err := tx.Exec("a"); return err },
		"Query":    func(tx *sqltx.Tx) error { _, err := tx.Query("a"); return err }, //nolint:sqlclosecheck // it fails
		"QueryRow": func(tx *sqltx.Tx) error { return tx.QueryRow("a").Err() },
	}
	for call, statement := range statements {
		for name, end := range settlings {
			t.Run(call+", "+name, func(t *testing.T) {
				h, e, st := hold(t, nil)
				e.err = errDeadlock
				require.ErrorIs(t, statement(h.Tx()), errDeadlock)
				e.err = nil
				err := end(h, t.Context())
				require.NotErrorIs(t, err, store.ErrTxEnded)
				require.NotErrorIs(t, err, store.ErrUnknown)
				if name == "Rollback" {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, store.ErrUnavailable)
				}
				_, err = st.Find(t.Context(), id)
				require.ErrorIs(t, err, store.ErrNotFound)
			})
		}
	}
}

// A visible record shows that the user has committed the transaction. The engine has rolled back a later one.
func TestATransactionThatItsUserCommittedBeforeARollbackIsUnknown(t *testing.T) {
	for name, end := range settlings {
		t.Run(name, func(t *testing.T) {
			h, e, st := hold(t, nil)
			g, err := st.Reserve(t.Context(), store.Claim{ID: id, Retention: store.Forever})
			require.NoError(t, err)
			require.EqualValues(t, 1, g.Lease.Fence)
			e.err = errDeadlock
			_, err = h.Tx().Exec("a")
			require.ErrorIs(t, err, errDeadlock)
			e.err = nil
			err = end(h, t.Context())
			require.ErrorIs(t, err, store.ErrTxEnded)
			require.ErrorIs(t, err, store.ErrUnknown)
			r, err := st.Find(t.Context(), id)
			require.NoError(t, err)
			require.True(t, r.OutcomeUnknown())
		})
	}
}

// Without a transaction, another goroutine's statement would be committed by itself.
func TestNoStatementRunsBeforeTheRestart(t *testing.T) {
	var h *sqltx.Held
	var e *engine
	later := make(chan error)
	h, e, _ = hold(t, func() {
		e.err = nil
		go func() {
			_, err := h.Tx().Exec("later")
			later <- err
		}()
		for range 1000 {
			runtime.Gosched()
		}
		e.calls = append(e.calls, "restart")
	})
	e.err, e.calls = errDeadlock, nil
	_, err := h.Tx().Exec("first")
	require.Error(t, err)
	require.NoError(t, <-later)
	require.Equal(t, []string{"first", "restart", "later"}, e.calls)
}
