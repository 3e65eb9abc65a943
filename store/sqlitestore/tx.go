package sqlitestore

import (
	"context"
	"database/sql"
	"errors"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/sqltx"
)

// A transaction is an open one that holds a record. Its goroutine has the turn.
type transaction struct {
	s     *Store
	lease store.Lease
	tx    *sql.Tx
}

// Begin implements [store.TxStore]. The transaction has the file's lock: every other writer waits for it.
func (s *Store) Begin(ctx context.Context, c store.Claim) (store.Tx[*sqltx.Tx], store.Grant, error) {
	if err := c.Validate(); err != nil {
		return nil, store.Grant{}, err
	}
	c.Lease, c.Meta, c.Owner = 0, nil, ""
	var h *sqltx.Held
	g, err := s.claim(ctx, c, func() (g store.Grant, err error) {
		if h, g, err = s.hold(ctx, c); h == nil {
			<-s.turn
		}
		return g, err
	})
	if h == nil {
		return nil, g, err
	}
	return h, g, nil
}

// hold opens the transaction and takes the record in it. It returns nil if there is no transaction.
func (s *Store) hold(ctx context.Context, c store.Claim) (h *sqltx.Held, g store.Grant, err error) {
	fence, err := s.draw(ctx, c.ID)
	if err != nil {
		return nil, store.Grant{}, err
	}
	t := &transaction{s: s, lease: store.Lease{ID: c.ID, Fence: uint64(fence)}}
	// The transaction outlives the context.
	if t.tx, err = s.writes.BeginTx(context.Background(), nil); err != nil {
		t.withdraw()
		return nil, store.Grant{}, err
	}
	if g, err = s.take(ctx, t.tx, c, fence); err == nil && g.Verdict.Owned() {
		h, err = sqltx.Hold(ctx, s, t.tx, c, t.lease.Fence, t)
	}
	if h == nil {
		t.undo()
	}
	return h, g, err
}

// withdraw takes back the announcement of draw. If it fails, the next commit of the file does it.
func (t *transaction) withdraw() {
	_, _ = t.s.draws.ExecContext(context.Background(), withdrawSQL+" AND last = ?", int64(t.lease.Fence))
}

func (t *transaction) undo() {
	_ = t.tx.Rollback() // it fails only if SQLite has rolled back already
	t.withdraw()
}

// Rollback implements [sqltx.Engine], as do the methods below.
func (t *transaction) Rollback() {
	t.undo()
	<-t.s.turn
}

func (t *transaction) Commit(ctx context.Context) error {
	err := committed(t.tx.Commit())
	if err != nil {
		t.withdraw()
	}
	<-t.s.turn
	return t.s.failure(context.WithoutCancel(ctx), err)
}

func (t *transaction) Settle(ctx context.Context, o store.Outcome) error {
	if err := sqltx.Move(ctx, t.tx, completeSQL, t.lease, settled(o)(t.s.clock())...); err != nil {
		return err
	}
	_, err := t.tx.ExecContext(ctx, withdrawSQL)
	return err
}

func (t *transaction) Gone(err error) bool { return code(err) == sqlite3.SQLITE_ERROR }

// Restart begins a transaction, which SQLite refuses if one is open. The errors are those after which SQLite may have
// rolled back: https://sqlite.org/lang_transaction.html
func (t *transaction) Restart(err error) bool {
	switch code(err) {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_INTERRUPT:
	default:
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			return false
		}
	}
	_, err = t.tx.ExecContext(context.Background(), "BEGIN")
	return err == nil
}

func (t *transaction) Failure(ctx context.Context, err error) error { return t.s.failure(ctx, err) }
