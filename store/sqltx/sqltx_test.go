package sqltx_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/sqltx"
)

// begin returns a Tx over an engine that records the calls that reach it.
func begin(t *testing.T) (*sqltx.Tx, *engine) {
	t.Helper()
	e := &engine{}
	db := sql.OpenDB(e)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	tx, err := db.Begin() // t.Context ends before the cleanup does
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tx.Rollback()) })
	return sqltx.New(tx), e
}

func TestTheUserOfATransactionCannotEndIt(t *testing.T) {
	t.Run("commit", func(t *testing.T) {
		tx, e := begin(t)
		require.ErrorIs(t, tx.Commit(), store.ErrTxEnded)
		require.Empty(t, e.calls, "nothing may reach the engine")
		require.False(t, tx.RollbackRefused())
	})
	t.Run("rollback", func(t *testing.T) {
		tx, e := begin(t)
		require.ErrorIs(t, tx.Rollback(), store.ErrTxEnded)
		require.Empty(t, e.calls, "nothing may reach the engine")
		require.True(t, tx.RollbackRefused())
	})
}

func TestStatementsReachTheTransaction(t *testing.T) {
	tx, e := begin(t)
	_, err := tx.Exec("a", 1)
	require.NoError(t, err)
	rows, err := tx.Query("b", 2)
	require.NoError(t, err)
	require.NoError(t, rows.Close())
	require.NoError(t, rows.Err())
	require.ErrorIs(t, tx.QueryRow("c", 3).Scan(), sql.ErrNoRows)
	stmt, err := tx.Prepare("d")
	require.NoError(t, err)
	_, err = tx.Stmt(stmt).Exec()
	require.NoError(t, err)
	require.NoError(t, stmt.Close())
	require.Equal(t, []string{"a", "b", "c", "d"}, e.calls)
	require.ErrorIs(t, tx.Commit(), store.ErrTxEnded, "a statement does not make the transaction the caller's")
}

// An engine is a database/sql driver with one connection.
type engine struct {
	calls []string
	err   error       // of statements
	rows  driver.Rows // of queries; nil: none
}

func (e *engine) Connect(context.Context) (driver.Conn, error) { return e, nil }
func (e *engine) Driver() driver.Driver                        { return nil }
func (e *engine) Begin() (driver.Tx, error)                    { return ending{e}, nil }
func (e *engine) Close() error                                 { return nil }
func (e *engine) Prepare(query string) (driver.Stmt, error)    { return statement{e, query}, nil }

type ending struct{ *engine }

func (e ending) Commit() error   { e.calls = append(e.calls, "commit"); return nil }
func (e ending) Rollback() error { e.calls = append(e.calls, "rollback"); return nil }

type statement struct {
	*engine
	query string
}

func (s statement) NumInput() int { return -1 }
func (s statement) Exec([]driver.Value) (driver.Result, error) {
	s.calls = append(s.calls, s.query)
	return driver.ResultNoRows, s.err
}

func (s statement) Query([]driver.Value) (driver.Rows, error) {
	s.calls = append(s.calls, s.query)
	if s.err != nil {
		return nil, s.err
	}
	if s.rows != nil {
		return s.rows, nil
	}
	return noRows{}, nil
}

type noRows struct{ driver.Rows }

func (noRows) Columns() []string         { return nil }
func (noRows) Close() error              { return nil }
func (noRows) Next([]driver.Value) error { return io.EOF }
