package pgstore

import (
	"context"

	"github.com/redo-go/redo/store"
)

// An engine is a driver's pool of connections. There is one for pgx and one for database/sql; everything else in this
// package is the same for both.
type engine interface {
	// acquire returns a connection, whose release gives it back.
	acquire(ctx context.Context) (connection, error)
	// shut closes the pool when every connection is back; idle closes only what nobody uses.
	shut()
	idle()
}

// A session runs statements: on a connection, where each is a transaction, or in a transaction.
type session interface {
	exec(ctx context.Context, sql string, args ...any) (changed int64, err error)
	query(ctx context.Context, sql string, args ...any) (rows, error)
	queryRow(ctx context.Context, sql string, args ...any) scanner
}

// A scanner's Scan returns an error that wraps sql.ErrNoRows where there is no row. pgx's own does as well.
type scanner interface{ Scan(dest ...any) error }

type rows interface {
	scanner
	Next() bool
	Err() error
	close()
}

// A connection that somebody has acquired.
type connection interface {
	session
	// begin opens a transaction, reserves in it and sets the savepoint. The transaction releases the connection when
	// it ends. With an error there is none any more, and the connection is the caller's.
	begin(ctx context.Context, q *statements, c store.Claim) (transaction, reservation, error)
	closed() bool
	release()
}

// A transaction that holds a record. Its statements fail with errUserEnded where its user has committed it or rolled it
// back. It is over with commit or rollback, whatever they return.
type transaction interface {
	session
	// refused reports whether its user has asked for a rollback, which was not his to make.
	refused() bool
	commit(ctx context.Context) error
	rollback(ctx context.Context) error
}
