package pgstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/redo-go/redo/store"
)

// sqlPool is the engine over database/sql. The pool is never the store's own.
type sqlPool struct {
	db   *sql.DB
	mode pgx.QueryExecMode
}

func (*sqlPool) shut() {}
func (*sqlPool) idle() {}

func (p *sqlPool) acquire(ctx context.Context) (connection, error) {
	conn, err := p.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return &sqlConn{sqlSession{conn, p.mode}, conn}, nil
}

// An sqlSession sends statements in a mode of their own unless that is zero.
type sqlSession struct {
	on interface {
		ExecContext(ctx context.Context, sql string, args ...any) (sql.Result, error)
		QueryContext(ctx context.Context, sql string, args ...any) (*sql.Rows, error)
		QueryRowContext(ctx context.Context, sql string, args ...any) *sql.Row
	}
	mode pgx.QueryExecMode
}

func (s sqlSession) exec(ctx context.Context, sql string, args ...any) (int64, error) {
	result, err := s.on.ExecContext(ctx, sql, inMode(s.mode, args)...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (s sqlSession) query(ctx context.Context, sql string, args ...any) (rows, error) {
	found, err := s.on.QueryContext(ctx, sql, inMode(s.mode, args)...)
	return sqlRows{found}, err
}

func (s sqlSession) queryRow(ctx context.Context, sql string, args ...any) scanner {
	return s.on.QueryRowContext(ctx, sql, inMode(s.mode, args)...)
}

type sqlRows struct{ *sql.Rows }

func (r sqlRows) close() { _ = r.Close() } // Err says what there is to say

type sqlConn struct {
	sqlSession
	conn *sql.Conn
}

func (*sqlConn) closed() bool { return false }       // the driver looks by itself
func (c *sqlConn) release()   { _ = c.conn.Close() } // fails only where it was released before

// begin detaches the transaction from the context, which database/sql would roll it back with, save while it begins.
func (c *sqlConn) begin(ctx context.Context, q *statements, claim store.Claim) (transaction, reservation, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	tx, err := c.conn.BeginTx(life, nil)
	if err != nil {
		stop()
		end()
		return nil, reservation{}, err
	}
	t := &sqlTransaction{sqlSession{tx, c.mode}, tx, c, end}
	h, err := q.reserveHeldOn(ctx, t.sqlSession, claim)
	if err == nil {
		_, err = t.sqlSession.exec(ctx, "SAVEPOINT "+savepoint)
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = t.finish(ctx, tx.Rollback) // a connection that can't roll back is closed by the driver
		return nil, reservation{}, err
	}
	return t, h, nil
}

// An sqlTransaction gives its connection back when it is over.
type sqlTransaction struct {
	sqlSession
	tx   *sql.Tx
	conn *sqlConn
	end  context.CancelFunc // of the context that the transaction lives in
}

func (*sqlTransaction) refused() bool { return false }

// brokenOut is that of pgx. Where something stands between database/sql and its driver it can't be seen.
func (t *sqlTransaction) brokenOut() (out bool) {
	_ = t.conn.conn.Raw(func(c any) error {
		if c, ok := c.(*stdlib.Conn); ok {
			out = !c.Conn().IsClosed() && c.Conn().PgConn().TxStatus() == 'I'
		}
		return nil
	})
	return out
}

func (t *sqlTransaction) exec(ctx context.Context, text string, args ...any) (int64, error) {
	if t.brokenOut() {
		return 0, errBrokenOut
	}
	n, err := t.sqlSession.exec(ctx, text, args...)
	if errors.Is(err, sql.ErrTxDone) {
		return 0, errUserEnded
	}
	return n, err
}

func (t *sqlTransaction) commit(ctx context.Context) error {
	defer t.conn.release()
	return t.finish(ctx, t.tx.Commit)
}

func (t *sqlTransaction) rollback(ctx context.Context) error {
	defer t.conn.release()
	out := t.brokenOut()
	err := t.finish(ctx, t.tx.Rollback)
	switch {
	case errors.Is(err, sql.ErrTxDone):
		return errUserEnded
	case out:
		// Nobody knows what else the session was used for.
		_ = t.conn.conn.Raw(func(any) error { return driver.ErrBadConn })
		return errBrokenOut
	}
	return err
}

// finish calls a method that takes no context. What ends the transaction's life ends it.
func (t *sqlTransaction) finish(ctx context.Context, last func() error) error {
	defer t.end()
	defer context.AfterFunc(ctx, t.end)()
	return last()
}
