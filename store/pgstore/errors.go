package pgstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/redo-go/redo/store"
)

// Why a table can't be used. Each is found with errors.Is beside [store.ErrUnavailable], and each error names
// the table.
var (
	// ErrNoTable: the table, or its schema, does not exist.
	ErrNoTable = errors.New("pgstore: table missing")
	// ErrForeign: the table is not one of this package's, or was changed. It is left alone.
	ErrForeign = errors.New("pgstore: not a table of this package")
	// ErrVersion: the table was made by another version of this package.
	ErrVersion = errors.New("pgstore: table of another version")
	// ErrStandby: the server is a standby; records have to be read and written on the primary. A primary whose transactions
	// are read-only by default is told the same when it is written to.
	ErrStandby = errors.New("pgstore: server is a standby")
)

var errNotGranted = errors.New("pgstore: privilege missing")

// errNotPrepared says what to set: the session that a statement was prepared in is not the one that it is sent to.
var errNotPrepared = fmt.Errorf("pgstore: a transaction pooler keeps no prepared statements: "+
	"set default_query_exec_mode=exec in the connection string, or WithExecMode(pgx.QueryExecModeExec): %w", store.ErrUnavailable)

// errStalled is what Wait returns when a look got no answer.
var errStalled = fmt.Errorf("pgstore: no answer within %v: %w", lookLimit, store.ErrUnavailable)

// errLostRace asks for another try: somebody else's write came between a statement's look and its write.
var errLostRace = errors.New("pgstore: lost race")

// errClosed is what every method returns after Close.
var errClosed = fmt.Errorf("pgstore: closed: %w", store.ErrUnavailable)

// What a Tx returns besides.
var (
	errOver      = errors.New("pgstore: the transaction is over")
	errUserEnded = fmt.Errorf("pgstore: %w", store.ErrTxEnded)
	errBrokenOut = fmt.Errorf("%w with a statement", errUserEnded)
	errNotYours  = errors.New("pgstore: the transaction is committed and rolled back by its store alone")
)

// SQLSTATE codes, from appendix A of the Postgres manual.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	readOnly             = "25006"
	duplicateTable       = "42P07"
	undefinedTable       = "42P01"
	undefinedColumn      = "42703"
	undefinedSchema      = "3F000"
	noPrivilege          = "42501"
	queryCanceled        = "57014"
	lockNotAvailable     = "55P03"
	noTransaction        = "25P01"
	noSavepoint          = "3B001"
	transactionFailed    = "25P02"
	uniqueViolation      = "23505"
	unknownStatement     = "26000"
	duplicateStatement   = "42P05"
)

// again reports whether a statement that failed so has changed nothing and may do better the next time.
func again(err error, writes bool) bool {
	var pg *pgconn.PgError
	switch {
	case errors.Is(err, errLostRace):
		return true
	case errors.As(err, &pg):
		return pg.Code == serializationFailure || pg.Code == deadlockDetected
	}
	return unsent(err, writes)
}

// unsent holds where nothing was sent: the connection was dead and is gone from the pool. That a connection is closed
// proves nothing, though pgx calls it safe to retry: where pgx sends a statement as text it also says so when the answer was
// lost, and its database/sql driver then says driver.ErrBadConn. A connection is looked at before it is used instead.
func unsent(err error, writes bool) bool {
	if errors.Is(err, driver.ErrBadConn) {
		return !writes
	}
	return pgconn.SafeToRetry(err) && !errors.Is(err, pgconn.ErrConnClosed)
}

// failure says in the contract's words what became of a statement whose connection was had. writes says that it
// may have changed something.
func (s *records) failure(ctx context.Context, err error, writes bool) error {
	var pg *pgconn.PgError
	answered := errors.As(err, &pg) && !endsSession(pg)
	ended := ctx.Err()
	switch {
	case answered:
		// The server has rolled the statement back, and says why.
		return s.refusal(ctx, pg)
	case errors.Is(err, pgx.ErrTxCommitRollback):
		return fmt.Errorf("pgstore: %w: %w", store.ErrUnavailable, err)
	case unsent(err, writes):
		if ended != nil {
			return ended
		}
		return fmt.Errorf("pgstore: %w: %w", store.ErrUnavailable, err)
	case writes && ended != nil:
		return fmt.Errorf("pgstore: %w: %w: %w", store.ErrUnknown, ended, err)
	case writes:
		return fmt.Errorf("pgstore: %w: %w", store.ErrUnknown, err)
	case ended != nil:
		return ended
	}
	return fmt.Errorf("pgstore: %w: %w", store.ErrUnavailable, err)
}

// endsSession holds for errors after which nothing is known of the statement: the server gave the session up, and may
// have committed before.
func endsSession(pg *pgconn.PgError) bool {
	return pg.SeverityUnlocalized == "FATAL" || pg.SeverityUnlocalized == "PANIC" || strings.HasPrefix(pg.Code, "08")
}

// refusal translates an error that the server answered with.
func (s *records) refusal(ctx context.Context, pg *pgconn.PgError) error {
	switch pg.Code {
	case undefinedSchema:
		return fmt.Errorf("%w: %s: there is no such schema: create it first: %w: %w", ErrNoTable, s.name(), pg, store.ErrUnavailable)
	case undefinedTable:
		return fmt.Errorf("%w: %s: create it with Migrate, or apply the text of Migration: %w: %w",
			ErrNoTable, s.name(), pg, store.ErrUnavailable)
	case undefinedColumn:
		return fmt.Errorf("%w: %s: %w: %w", ErrForeign, s.name(), pg, store.ErrUnavailable)
	case readOnly:
		return fmt.Errorf("%w: %w: %w", ErrStandby, pg, store.ErrUnavailable)
	case queryCanceled:
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("pgstore: %w: %w", store.ErrUnavailable, pg)
	case transactionFailed:
		return fmt.Errorf("pgstore: a statement in the transaction has failed, so that it can only be rolled back or discarded; put what may fail in a savepoint: %w", pg)
	case unknownStatement, duplicateStatement:
		return fmt.Errorf("%w: %w", errNotPrepared, pg)
	case noPrivilege, lockNotAvailable, serializationFailure, deadlockDetected:
		return fmt.Errorf("pgstore: %w: %w", store.ErrUnavailable, pg)
	}
	switch pg.Code[:min(2, len(pg.Code))] {
	case "28", "53", "57", "58", "XX": // authorization, resources, an operator, the system, damage
		return fmt.Errorf("pgstore: %w: %w", store.ErrUnavailable, pg)
	}
	return fmt.Errorf("pgstore: %w", pg)
}
