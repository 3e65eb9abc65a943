// Package sqltx holds the transaction that the stores over database/sql hand out: a [Tx] runs statements like *sql.Tx,
// and refuses Commit and Rollback, which are the store's.
package sqltx

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/redo-go/redo/store"
)

// A Tx runs statements in a transaction that a store owns. It has the methods of [sql.Tx], so that it fits the
// interfaces that query builders and code generators accept. It is as safe for concurrent use as sql.Tx.
type Tx struct {
	tx         *sql.Tx
	rolledBack atomic.Bool // the caller asked for a rollback

	restart func(err error) bool // [Engine.Restart]; nil if the engine never rolls back by itself
	mu      sync.Mutex           // from a statement to the restart, so that no other one is committed between them
	aborted bool
}

// New returns the Tx of a transaction that the caller, a store, ends.
func New(tx *sql.Tx) *Tx { return &Tx{tx: tx} }

// RollbackRefused reports whether Rollback was called. The store then commits nothing.
func (t *Tx) RollbackRefused() bool { return t.rolledBack.Load() }

// Commit refuses: it returns an error that wraps [store.ErrTxEnded], and the transaction goes on.
func (t *Tx) Commit() error {
	return fmt.Errorf("sqltx: %w: Commit is refused, the store commits the transaction with its record",
		store.ErrTxEnded)
}

// Rollback refuses: it returns an error that wraps [store.ErrTxEnded]. The store then refuses to commit the
// transaction, and rolls it back.
func (t *Tx) Rollback() error {
	t.rolledBack.Store(true)
	return fmt.Errorf("sqltx: %w: Rollback is refused, return an error to undo the transaction", store.ErrTxEnded)
}

// run runs a statement. If the engine has rolled the transaction back because it failed, the transaction is aborted.
func (t *Tx) run(ctx context.Context, statement func() error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sent := ctx.Err() == nil // database/sql sends nothing for a context that has ended
	if err := statement(); err != nil && sent && t.restart != nil && t.restart(err) {
		t.aborted = true
	}
}

// isAborted reports whether the engine has rolled the transaction back. Later statements ran in another one.
func (t *Tx) isAborted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.aborted
}

// Exec is [sql.Tx.Exec].
func (t *Tx) Exec(query string, args ...any) (sql.Result, error) {
	return t.ExecContext(context.Background(), query, args...)
}

// ExecContext is [sql.Tx.ExecContext].
func (t *Tx) ExecContext(ctx context.Context, query string, args ...any) (r sql.Result, err error) {
	t.run(ctx, func() error {
		r, err = t.tx.ExecContext(ctx, query, args...)
		return err
	})
	return r, err
}

// Query is [sql.Tx.Query].
func (t *Tx) Query(query string, args ...any) (*sql.Rows, error) {
	return t.QueryContext(context.Background(), query, args...)
}

// QueryContext is [sql.Tx.QueryContext].
func (t *Tx) QueryContext(ctx context.Context, query string, args ...any) (rows *sql.Rows, err error) {
	t.run(ctx, func() error {
		rows, err = t.tx.QueryContext(ctx, query, args...)
		return err
	})
	return rows, err
}

// QueryRow is [sql.Tx.QueryRow].
func (t *Tx) QueryRow(query string, args ...any) *sql.Row {
	return t.QueryRowContext(context.Background(), query, args...)
}

// QueryRowContext is [sql.Tx.QueryRowContext].
func (t *Tx) QueryRowContext(ctx context.Context, query string, args ...any) (row *sql.Row) {
	t.run(ctx, func() error {
		row = t.tx.QueryRowContext(ctx, query, args...)
		return row.Err()
	})
	return row
}

// Prepare is [sql.Tx.Prepare].
func (t *Tx) Prepare(query string) (*sql.Stmt, error) {
	return t.PrepareContext(context.Background(), query)
}

// PrepareContext is [sql.Tx.PrepareContext]. The store does not see the errors of the statement. If the engine rolls
// the transaction back because of one, the store takes it for ended by its user: see [store.ErrTxEnded]. The same holds
// for errors of sql.Rows.
func (t *Tx) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	return t.tx.PrepareContext(ctx, query)
}

// Stmt is [sql.Tx.Stmt].
func (t *Tx) Stmt(stmt *sql.Stmt) *sql.Stmt { return t.StmtContext(context.Background(), stmt) }

// StmtContext is [sql.Tx.StmtContext].
func (t *Tx) StmtContext(ctx context.Context, stmt *sql.Stmt) *sql.Stmt {
	return t.tx.StmtContext(ctx, stmt)
}
