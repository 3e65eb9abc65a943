package pgstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore/pgtable"
	"github.com/redo-go/redo/store/sqltx"
)

// A connection is taken from its pool for one transaction, whose type is T for the user.
type connection[T any] interface {
	// with calls f with the connection. If that is closed, it returns the error of pgtable.Acquired.
	with(f func(*pgx.Conn) error) error
	// begin opens the transaction and sends the statements that queue adds, whose callbacks read the responses.
	begin(ctx context.Context, queue func(*pgx.Batch)) error
	// tx returns the transaction for the user, and refused whether the user has asked for a rollback.
	tx() T
	refused() bool
	// commit sends the statements that queue adds, and commits.
	commit(ctx context.Context, queue func(*pgx.Batch)) error
	// rollback ends the transaction if it is open.
	rollback(ctx context.Context) error
	// release gives the connection back to the pool, which closes it if broken is true.
	release(broken bool)
}

// send sends a batch and calls its callbacks.
func send(ctx context.Context, on *pgx.Conn, queue func(*pgx.Batch)) error {
	var b pgx.Batch
	queue(&b)
	return on.SendBatch(ctx, &b).Close()
}

// A pgxConn is a connection of a pgx pool.
type pgxConn struct {
	conn *pgxpool.Conn
	user *userTx
}

func acquirePgx(ctx context.Context, pool *pgxpool.Pool) (connection[pgx.Tx], error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, pgtable.Acquired(nil, err)
	}
	if err := pgtable.Acquired(conn.Conn(), nil); err != nil {
		conn.Release()
		return nil, err
	}
	return &pgxConn{conn: conn}, nil
}

func (c *pgxConn) with(f func(*pgx.Conn) error) error {
	if err := pgtable.Acquired(c.conn.Conn(), nil); err != nil {
		return err
	}
	return f(c.conn.Conn())
}

func (c *pgxConn) tx() pgx.Tx    { return c.user }
func (c *pgxConn) refused() bool { return c.user.refused.Load() }

// release relies on the pool to close a connection that is in a transaction.
func (c *pgxConn) release(broken bool) {
	if broken {
		_ = c.conn.Conn().Close(context.Background())
	}
	c.conn.Release()
}

func (c *pgxConn) begin(ctx context.Context, queue func(*pgx.Batch)) error {
	var b pgx.Batch
	b.BeginTx(pgx.TxOptions{})
	queue(&b)
	sent := c.conn.SendBatch(ctx, &b)
	err := sent.Close()
	c.user = newUserTx(sent.Tx())
	return err
}

func (c *pgxConn) commit(ctx context.Context, queue func(*pgx.Batch)) error {
	defer c.user.end()
	return c.with(func(on *pgx.Conn) error {
		return send(ctx, on, func(b *pgx.Batch) {
			queue(b)
			b.Queue("COMMIT")
		})
	})
}

func (c *pgxConn) rollback(ctx context.Context) error {
	c.user.end()
	if conn := c.conn.Conn(); conn.IsClosed() || conn.PgConn().TxStatus() == 'I' {
		return nil
	}
	_, err := c.conn.Exec(ctx, "ROLLBACK")
	return err
}

// An sqlConn is a connection of a database/sql pool.
type sqlConn struct {
	conn *sql.Conn
	user *sqltx.Tx
	own  *sql.Tx            // the transaction that user wraps
	end  context.CancelFunc // of the context of the transaction
}

func acquireSQL(ctx context.Context, db *sql.DB) (connection[*sqltx.Tx], error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, pgtable.Acquired(nil, err)
	}
	return &sqlConn{conn: conn}, nil
}

// sqlConns returns the connections of a pool as pgx's own.
func sqlConns(db *sql.DB) pgtable.Conns {
	return func(ctx context.Context, f func(*pgx.Conn) error) error {
		conn, err := acquireSQL(ctx, db)
		if err != nil {
			return err
		}
		defer conn.release(false)
		return conn.with(f)
	}
}

// with calls f with the pgx connection below the one of database/sql.
func (c *sqlConn) with(f func(*pgx.Conn) error) error {
	return c.conn.Raw(func(conn any) error {
		for {
			switch below := conn.(type) {
			case *stdlib.Conn:
				if err := pgtable.Acquired(below.Conn(), nil); err != nil {
					return err
				}
				return f(below.Conn())
			case interface{ Raw() driver.Conn }:
				conn = below.Raw()
			case interface{ WrappedConn() driver.Conn }:
				conn = below.WrappedConn()
			default:
				return fmt.Errorf("pgstore: %w: the driver's connection is a %T, "+
					"and NewSQL needs that of pgx/v5/stdlib", store.ErrInvalid, conn)
			}
		}
	})
}

func (c *sqlConn) tx() *sqltx.Tx { return c.user }
func (c *sqlConn) refused() bool { return c.user.RollbackRefused() }

// begin gives the transaction a separate context, because database/sql rolls a transaction back when its context
// ends.
func (c *sqlConn) begin(ctx context.Context, queue func(*pgx.Batch)) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	tx, err := c.conn.BeginTx(life, nil)
	if err != nil {
		stop()
		end()
		return err
	}
	c.own, c.user, c.end = tx, sqltx.New(tx), end
	err = c.with(func(on *pgx.Conn) error { return send(ctx, on, queue) })
	if !stop() && err == nil {
		err = ctx.Err()
	}
	return err
}

func (c *sqlConn) commit(ctx context.Context, queue func(*pgx.Batch)) error {
	if err := c.with(func(on *pgx.Conn) error { return send(ctx, on, queue) }); err != nil {
		return err
	}
	return c.finish(ctx, c.own.Commit)
}

func (c *sqlConn) rollback(ctx context.Context) error {
	if c.own == nil {
		return nil
	}
	if err := c.finish(ctx, c.own.Rollback); !errors.Is(err, sql.ErrTxDone) {
		return err
	}
	return nil
}

// finish calls a method that takes no context. The end of the transaction's own context ends it.
func (c *sqlConn) finish(ctx context.Context, last func() error) error {
	defer c.end()
	defer context.AfterFunc(ctx, c.end)()
	return last()
}

func (c *sqlConn) release(broken bool) {
	if broken {
		_ = c.conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	_ = c.conn.Close()
}
