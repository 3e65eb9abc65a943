package mysqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/sqltx"
)

const rollbackTimeout = 5 * time.Second // it does not end with the caller's context
var errKept = errors.New("mysqlstore: the connection is an open transaction's")

// A transaction is an open one that holds a record. It has the ID's lock, which other claims check.
type transaction struct {
	s     *Store
	conn  *sql.Conn
	tx    *sql.Tx
	lease store.Lease
	alien bool // the caller has changed the session, or it may keep its lock: it is closed
}

// Begin implements [store.TxStore]. The transaction has one connection of the pool, and its isolation level.
func (s *Store) Begin(ctx context.Context, c store.Claim) (store.Tx[*sqltx.Tx], store.Grant, error) {
	if err := c.Validate(); err != nil {
		return nil, store.Grant{}, err
	}
	c.Lease, c.Meta, c.Owner = 0, nil, ""
	var h *sqltx.Held
	g, err := s.claim(ctx, false, c, func(conn *sql.Conn, now snapshot) (g store.Grant, err error) {
		s.freeBy(ctx, conn, now)
		if h, g, err = s.hold(ctx, conn, c, now); h != nil {
			err = errKept
		}
		return g, err
	})
	if h == nil {
		return nil, g, err
	}
	return h, g, nil
}

// hold opens the transaction and takes the record in it. It returns nil if there is no transaction.
func (s *Store) hold(
	ctx context.Context, conn *sql.Conn, c store.Claim, now snapshot,
) (h *sqltx.Held, g store.Grant, err error) {
	// The transaction outlives the context, which ends it only as long as it begins.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	begun := context.AfterFunc(ctx, end)
	t := &transaction{s: s, conn: conn, lease: store.Lease{ID: c.ID}}
	if t.tx, err = conn.BeginTx(life, nil); err != nil {
		return nil, store.Grant{}, err
	}
	switch err = t.tx.QueryRowContext(ctx, s.text.hold, s.lockOf(c.ID)).Scan(&now.Held); {
	case err != nil:
	case now.Held:
		g = now.Judge(c)
	case now.row:
		g, err = s.take(ctx, t.tx, c)
	default:
		g, err = s.insert(ctx, t.tx, c, now.At)
	}
	if t.lease.Fence = g.Lease.Fence; err == nil && g.Verdict.Owned() {
		h, err = sqltx.Hold(ctx, s, t.tx, c, g.Lease.Fence, t)
	}
	if h != nil && !begun() {
		h, err = nil, ctx.Err()
	}
	if h == nil {
		t.undo()
	}
	return h, g, err
}

// undo rolls back. It unlocks first, because a proxy may give the statement after a transaction to another session.
func (t *transaction) undo() {
	ctx, cancel := context.WithTimeout(context.Background(), rollbackTimeout)
	defer cancel()
	_ = t.unlock(ctx)
	if t.tx.Rollback() != nil || t.alien {
		discard(t.conn)
	}
}

// discard closes a connection, and does not give it back to its pool.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
}

func (t *transaction) unlock(ctx context.Context) error {
	fits := false
	err := t.tx.QueryRowContext(ctx, t.s.text.unhold, t.s.lockOf(t.lease.ID)).Scan(&fits)
	t.alien = t.alien || !fits
	return err
}

// Rollback implements [sqltx.Engine], as do the methods below.
func (t *transaction) Rollback() {
	t.undo()
	_ = t.conn.Close() // it fails only if it is closed
}

// Commit releases the lock before it commits. A claim that comes in between waits for the commit, as for any row.
func (t *transaction) Commit(ctx context.Context) error {
	if err := t.unlock(ctx); err != nil {
		t.Rollback()
		return t.Failure(ctx, err)
	}
	done := make(chan error, 2) // the driver's Commit knows no context
	defer context.AfterFunc(ctx, func() { done <- ctx.Err() })()
	go func() {
		err := t.tx.Commit()
		if t.alien {
			discard(t.conn)
		}
		_ = t.conn.Close() // it fails only if it is closed
		done <- err        // when the next call can use the connection
	}()
	return t.s.failure(ctx, <-done, true)
}

func (t *transaction) Settle(ctx context.Context, o store.Outcome) error {
	return t.s.settle(ctx, t.tx, "", t.lease, o)
}

// Gone makes the session alien: a LOCK TABLES ends the transaction, and its locks would stay.
func (t *transaction) Gone(err error) bool {
	t.alien = number(err) == noSavepoint
	return t.alien
}

// Restart rolls back again, because the server commits an open transaction before a BEGIN.
func (t *transaction) Restart(err error) bool {
	ctx, cancel := context.WithTimeout(context.Background(), rollbackTimeout)
	defer cancel()
	whole := is(err, deadlock, recordChanged, lockTableFull)
	if is(err, lockWaitTimeout) { // InnoDB undoes only the statement, unless the server has this setting
		_ = t.tx.QueryRowContext(ctx, "SELECT @@innodb_rollback_on_timeout").Scan(&whole)
	}
	if whole {
		_, _ = t.tx.ExecContext(ctx, "ROLLBACK AND CHAIN") // it fails only if the connection is lost
	}
	return whole
}

func (t *transaction) Failure(ctx context.Context, err error) error {
	return t.s.failure(ctx, err, false)
}
