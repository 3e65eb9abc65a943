package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/sqltx"
)

// errOvertaken: another process drew a fence after this one did.
var errOvertaken = errors.New("sqlitestore: another process was first")

// repeat runs f until no other connection is in its way, and translates its error.
func (s *Store) repeat(ctx context.Context, f func() error) error {
	return sqltx.Repeat(ctx, func() (again bool, err error) {
		if err = f(); busy(err) {
			return true, err // it names the lock
		}
		return false, s.failure(ctx, err)
	})
}

// change runs f in a transaction and commits it. It waits for other writers as long as ctx lasts. An error of f undoes
// everything.
func (s *Store) change(ctx context.Context, f func(tx *sql.Tx) error) error {
	return s.repeat(ctx, func() error {
		select {
		case s.turn <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { <-s.turn }()
		return s.commit(f)
	})
}

// commit is called by the goroutine whose turn it is. The transaction's own statements do not depend on a context, so
// that a context that ends leaves no commit in doubt.
func (s *Store) commit(f func(tx *sql.Tx) error) error {
	tx, err := s.writes.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	err = f(tx)
	if err == nil {
		_, err = tx.ExecContext(context.Background(), withdrawSQL)
	}
	if err != nil {
		_ = tx.Rollback() // it fails only if SQLite has rolled back already
		return err
	}
	return committed(tx.Commit())
}

// committed translates the error of a commit.
func committed(err error) error {
	if err == nil || busy(err) || code(err) == sqlite3.SQLITE_FULL {
		return err // nothing was committed
	}
	return fmt.Errorf("sqlitestore: %w: %w", store.ErrUnknown, err)
}

// failure translates the error of a statement that has changed nothing.
func (s *Store) failure(ctx context.Context, err error) error {
	switch {
	case sqltx.Translated(err):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case code(err) == sqlite3.SQLITE_NOTADB:
		return unavailable(fmt.Errorf("%w: %w", ErrForeign, err))
	case code(err) == sqlite3.SQLITE_TOOBIG:
		return fmt.Errorf("sqlitestore: %w: %w", store.ErrInvalid, err)
	}
	return unavailable(err)
}

// code returns SQLite's primary result code, or zero.
func code(err error) int {
	if e := (*sqlite.Error)(nil); errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

// busy reports whether another connection was in the way, and nothing was changed.
func busy(err error) bool {
	return code(err) == sqlite3.SQLITE_BUSY || code(err) == sqlite3.SQLITE_LOCKED || errors.Is(err, errOvertaken)
}
