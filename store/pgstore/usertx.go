package pgstore

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/redo-go/redo/store"
)

// A userTx is the transaction that a store hands out. It refuses Commit and Rollback. When the store has ended the
// transaction, it uses the connection no more.
type userTx struct {
	open    pgx.Tx
	ended   *atomic.Bool // of the outermost transaction
	refused *atomic.Bool // the user asked for a rollback
	nested  bool         // it is a savepoint, which its user may end
}

func newUserTx(tx pgx.Tx) *userTx {
	return &userTx{open: tx, ended: &atomic.Bool{}, refused: &atomic.Bool{}}
}

// closed is a transaction whose methods return pgx.ErrTxClosed.
var closed = func() pgx.Tx {
	var b pgx.Batch
	b.BeginTx(pgx.TxOptions{})
	return pgx.FailedBatchResults(&b, pgx.ErrTxClosed).Tx()
}()

func (u *userTx) end() { u.ended.Store(true) }

func (u *userTx) now() pgx.Tx {
	if u.ended.Load() {
		return closed
	}
	return u.open
}

func (u *userTx) Commit(ctx context.Context) error {
	if u.nested {
		return u.now().Commit(ctx)
	}
	return fmt.Errorf("pgstore: %w: Commit is refused, the store commits the transaction", store.ErrTxEnded)
}

func (u *userTx) Rollback(ctx context.Context) error {
	if u.nested {
		return u.now().Rollback(ctx)
	}
	u.refused.Store(true)
	return fmt.Errorf("pgstore: %w: Rollback is refused, return an error to undo the transaction", store.ErrTxEnded)
}

func (u *userTx) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := u.now().Begin(ctx)
	if err != nil {
		return nil, err
	}
	return &userTx{open: tx, ended: u.ended, refused: u.refused, nested: true}, nil
}

func (u *userTx) CopyFrom(
	ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource,
) (int64, error) {
	return u.now().CopyFrom(ctx, table, columns, rows)
}

func (u *userTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	return u.now().SendBatch(ctx, b)
}

func (u *userTx) LargeObjects() pgx.LargeObjects { return u.now().LargeObjects() }

func (u *userTx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	return u.now().Prepare(ctx, name, sql)
}

func (u *userTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return u.now().Exec(ctx, sql, args...)
}

func (u *userTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return u.now().Query(ctx, sql, args...)
}

func (u *userTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return u.now().QueryRow(ctx, sql, args...)
}

func (u *userTx) Conn() *pgx.Conn { return u.now().Conn() }
