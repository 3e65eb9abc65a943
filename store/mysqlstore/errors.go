package mysqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"

	"github.com/go-sql-driver/mysql"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/sqltx"
)

// Error numbers, from the servers' reference manuals.
const (
	recordChanged   = 1020 // MariaDB
	shutdown        = 1053
	duplicateKey    = 1062
	syntaxError     = 1064
	packetTooLarge  = 1153
	commitFailed    = 1180 // the other nodes of a Galera cluster may have committed
	lockWaitTimeout = 1205
	lockTableFull   = 1206
	deadlock        = 1213
	noSavepoint     = 1305
	sessionKilled   = 1927 // MariaDB
)

// kinds are the errors that mean something of the table or the server: no such table, unknown column, read-only.
var kinds = map[uint16]error{
	1146: ErrNoTable, 1054: ErrForeign, 1036: ErrReadOnly, 1290: ErrReadOnly, 1792: ErrReadOnly, 1836: ErrReadOnly,
}

var errClosed = fmt.Errorf("mysqlstore: closed: %w", store.ErrUnavailable)

// A read is the error of a statement that changes nothing, in a call that may change something after it.
type read struct{ error }

func (r read) Unwrap() error { return r.error }

// run calls f with a connection until no obstacle is left, and translates its error. writes reports whether f may
// have changed something if its connection is lost.
func (s *Store) run(ctx context.Context, writes bool, f func(conn *sql.Conn) error) error {
	const maxBad = 64 // the connections that the pool kept over a restart of the server are bad
	bad := 0
	return sqltx.Repeat(ctx, func() (bool, error) {
		if s.closed.Load() {
			return false, errClosed
		}
		conn, err := s.db.Conn(ctx)
		if err != nil {
			return false, s.failure(ctx, read{err}, writes)
		}
		if err = f(conn); errors.Is(err, errKept) {
			return false, nil
		}
		if number(err) != 0 && !again(err) || errors.Is(err, ErrServer) {
			discard(conn) // a handler or another program may have changed the session
		}
		_ = conn.Close() // it fails only if it is closed
		if errors.Is(err, driver.ErrBadConn) {
			// With rejectReadOnly each connection to a read-only server is a bad one, and a new one does not help.
			if bad++; bad == maxBad {
				return false, fmt.Errorf("%w: %w: %w", ErrReadOnly, store.ErrUnavailable, err)
			}
		}
		return again(err), s.failure(ctx, err, writes)
	})
}

// again reports whether the failed statement changed nothing and may succeed the next time. Another claim has made the
// row of a duplicate key, and has locked or removed one that is not found. The driver returns ErrBadConn only if
// nothing was sent. sql.ErrConnDone follows after a freeBy that lost the connection.
func again(err error) bool {
	return is(err, deadlock, duplicateKey, lockWaitTimeout, recordChanged) || errors.Is(err, sql.ErrNoRows) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone)
}

// failure translates an error. writes reports whether something may have been changed.
func (s *Store) failure(ctx context.Context, err error, writes bool) error {
	if sqltx.Translated(err) {
		return err
	}
	writes = writes && !errors.As(err, new(read))
	n, ended := number(err), ctx.Err()
	switch responded := n != 0 && !is(err, shutdown, sessionKilled, commitFailed); {
	case kinds[n] != nil:
		return fmt.Errorf("%w: %w: %w", kinds[n], store.ErrUnavailable, err)
	case n == packetTooLarge || errors.Is(err, mysql.ErrPktTooLarge):
		return fmt.Errorf("mysqlstore: %w: %w", store.ErrInvalid, err)
	case !responded && writes:
		return fmt.Errorf("mysqlstore: %w: %w", store.ErrUnknown, errors.Join(ended, err))
	case !responded && ended != nil:
		return ended
	}
	return fmt.Errorf("mysqlstore: %w: %w", store.ErrUnavailable, err) // the server has undone the statement
}

func is(err error, numbers ...uint16) bool { return slices.Contains(numbers, number(err)) }

// number returns the number of an error that the server has returned, or zero.
func number(err error) uint16 {
	if e := (*mysql.MySQLError)(nil); errors.As(err, &e) {
		return e.Number
	}
	return 0
}
