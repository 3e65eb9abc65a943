package pgstore

import (
	"context"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redo-go/redo/store"
)

// pgxPool is the engine over pgx.
type pgxPool struct {
	pool *pgxpool.Pool
	mode pgx.QueryExecMode
	// piped: a batch goes out in the pool's own mode, and that is the one that is wanted.
	piped bool
}

func newPgxPool(pool *pgxpool.Pool, mode pgx.QueryExecMode) *pgxPool {
	own := pool.Config().ConnConfig.DefaultQueryExecMode
	return &pgxPool{pool: pool, mode: mode, piped: mode == 0 || mode == own}
}

func (p *pgxPool) shut() { p.pool.Close() }
func (p *pgxPool) idle() { p.pool.Reset() }

func (p *pgxPool) acquire(ctx context.Context) (connection, error) {
	conn, err := p.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return &pgxConn{pgxSession{conn, p.mode}, conn, p.piped}, nil
}

// A pgxSession sends statements in a mode of their own unless that is zero.
type pgxSession struct {
	on interface {
		Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
		Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
		QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	}
	mode pgx.QueryExecMode
}

func (s pgxSession) exec(ctx context.Context, sql string, args ...any) (int64, error) {
	tag, err := s.on.Exec(ctx, sql, inMode(s.mode, args)...)
	return tag.RowsAffected(), err
}

func (s pgxSession) query(ctx context.Context, sql string, args ...any) (rows, error) {
	found, err := s.on.Query(ctx, sql, inMode(s.mode, args)...)
	return pgxRows{found}, err
}

func (s pgxSession) queryRow(ctx context.Context, sql string, args ...any) scanner {
	return s.on.QueryRow(ctx, sql, inMode(s.mode, args)...)
}

// inMode puts the mode where pgx looks for it, through database/sql as well.
func inMode(mode pgx.QueryExecMode, args []any) []any {
	if mode == 0 {
		return args
	}
	return append([]any{mode}, args...)
}

type pgxRows struct{ pgx.Rows }

func (r pgxRows) close() { r.Close() }

type pgxConn struct {
	pgxSession
	conn  *pgxpool.Conn
	piped bool
}

func (c *pgxConn) closed() bool { return c.conn.Conn().IsClosed() }
func (c *pgxConn) release()     { c.conn.Release() }

func (c *pgxConn) begin(ctx context.Context, q *statements, claim store.Claim) (transaction, reservation, error) {
	begin := c.step
	if c.piped {
		begin = c.pipe
	}
	tx, h, err := begin(ctx, q, claim)
	if err == nil {
		return &pgxTransaction{pgxSession: pgxSession{tx, c.mode}, tx: tx, conn: c.conn}, h, nil
	}
	if tx != nil {
		_ = tx.Rollback(ctx) // a connection that can't roll back is closed by it
	}
	return nil, reservation{}, err
}

// pipe sends all three statements before it reads an answer.
func (c *pgxConn) pipe(ctx context.Context, q *statements, claim store.Claim) (pgx.Tx, reservation, error) {
	var b pgx.Batch
	b.BeginTx(pgx.TxOptions{})
	b.Queue(q.reserveHeld, q.reserveHeldArgs(claim)...)
	b.Queue("SAVEPOINT " + savepoint)
	sent := c.conn.SendBatch(ctx, &b)
	var h reservation
	_, err := sent.Exec()
	if err == nil {
		h, err = reservationOf(claim, sent.QueryRow())
	}
	if end := sent.Close(); err == nil {
		err = end
	}
	return sent.Tx(), h, err
}

// step sends one after the other.
func (c *pgxConn) step(ctx context.Context, q *statements, claim store.Claim) (pgx.Tx, reservation, error) {
	tx, err := c.conn.Begin(ctx)
	if err != nil {
		return nil, reservation{}, err
	}
	on := pgxSession{tx, c.mode}
	h, err := q.reserveHeldOn(ctx, on, claim)
	if err == nil {
		_, err = on.exec(ctx, "SAVEPOINT "+savepoint)
	}
	return tx, h, err
}

// A pgxTransaction gives its connection back when it is over. The pool destroys one that is closed, busy or in a
// transaction.
type pgxTransaction struct {
	pgxSession
	tx       pgx.Tx
	conn     *pgxpool.Conn
	unwanted atomic.Bool // its user has called Rollback
}

func (t *pgxTransaction) refused() bool { return t.unwanted.Load() }

// brokenOut holds when the user has sent a COMMIT or ROLLBACK as a statement. Nobody knows what else the session was
// used for.
func (t *pgxTransaction) brokenOut() bool {
	conn := t.conn.Conn()
	return !conn.IsClosed() && conn.PgConn().TxStatus() == 'I'
}

func (t *pgxTransaction) exec(ctx context.Context, sql string, args ...any) (int64, error) {
	if t.brokenOut() {
		return 0, errBrokenOut
	}
	return t.pgxSession.exec(ctx, sql, args...)
}

func (t *pgxTransaction) commit(ctx context.Context) error {
	defer t.conn.Release()
	return t.tx.Commit(ctx)
}

func (t *pgxTransaction) rollback(ctx context.Context) error {
	defer t.conn.Release()
	if t.brokenOut() {
		_ = t.conn.Conn().Close(ctx)
		return errBrokenOut
	}
	return t.tx.Rollback(ctx)
}

// A userTx is what the user gets of a transaction that is its store's to end.
type userTx struct {
	pgx.Tx
	of *pgxTransaction
}

func (userTx) Commit(context.Context) error { return errNotYours }

func (u userTx) Rollback(context.Context) error {
	u.of.unwanted.Store(true)
	return errNotYours
}

func shownPgx(t transaction) pgx.Tx {
	on := t.(*pgxTransaction)
	return userTx{on.tx, on}
}
