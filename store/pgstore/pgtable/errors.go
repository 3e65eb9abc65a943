package pgtable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/sqltx"
)

// Reasons for which a table can't be used. Each wraps [store.ErrUnavailable] in the errors that have it.
var (
	// ErrNoTable: the table, or its schema, does not exist.
	ErrNoTable = errors.New("table missing")
	// ErrForeign: the table is not one of the package's, or was changed by another program.
	ErrForeign = errors.New("not a table of this package")
	// ErrVersion: the table or a record was written by a release that this release does not work with.
	ErrVersion = errors.New("another version's table or record")
	// ErrStandby: the server is a standby, or its transactions are read-only.
	ErrStandby = errors.New("server is a standby")
)

// SQLSTATE codes, from appendix A of the Postgres manual.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	readOnly             = "25006"
	transactionFailed    = "25P02"
	undefinedTable       = "42P01"
	undefinedColumn      = "42703"
	undefinedSchema      = "3F000"
	queryCanceled        = "57014"
	lockNotAvailable     = "55P03"
	unknownStatement     = "26000"
	duplicateStatement   = "42P05"
)

// Code returns the SQLSTATE of the error, or "" if the server did not send it.
func Code(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code
	}
	return ""
}

// Answered reports whether the error is the server's response to a statement. The server has then rolled the statement
// back. It is false if the session ended: the server may have committed before.
func Answered(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && severity(pg) != "FATAL" && severity(pg) != "PANIC" && !strings.HasPrefix(pg.Code, "08")
}

// severity returns the severity of an error. Poolers may send only the field that Postgres translates.
func severity(pg *pgconn.PgError) string { return cmp.Or(pg.SeverityUnlocalized, pg.Severity) }

// ByServer reports whether Postgres itself sent the error, also if it ended the session. The error of a pooler that has
// lost its connection to the server has class 08, or lacks a field that Postgres always sends.
func ByServer(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.SeverityUnlocalized != "" && !strings.HasPrefix(pg.Code, "08")
}

// unsent reports whether the statement was not sent. A closed connection proves nothing, although pgx calls it safe to
// retry: pgx also reports it if the response to a statement in the simple protocol was lost.
func unsent(err error) bool {
	return errors.Is(err, errNotSent) || pgconn.SafeToRetry(err) && !errors.Is(err, pgconn.ErrConnClosed)
}

// Failure returns the error of a statement in the terms of package store. writes means that the statement may have
// changed something. The error wraps store.ErrUnknown if it may have been committed, and the context's error if
// that ended. Otherwise it wraps store.ErrUnavailable, unless the server refuses the statement's own values
// (classes 22, 23 and P0).
func (t Table) Failure(ctx context.Context, err error, writes bool) error {
	ended := ctx.Err()
	switch {
	case sqltx.Translated(err):
		return err
	case Answered(err):
		return t.refusal(ctx, err)
	case errors.Is(err, pgx.ErrTxCommitRollback), !writes && ended == nil, unsent(err) && ended == nil:
		return t.unavailable(err)
	case !writes, unsent(err):
		return ended
	case ended != nil:
		return fmt.Errorf("%s: %w: %w: %w", t.Package, store.ErrUnknown, ended, err)
	}
	return fmt.Errorf("%s: %w: %w", t.Package, store.ErrUnknown, err)
}

func (t Table) unavailable(err error) error {
	return fmt.Errorf("%s: %w: %w", t.Package, store.ErrUnavailable, err)
}

// Unfit returns an error that wraps kind and store.ErrUnavailable and names the table.
func (t Table) Unfit(kind error, format string, args ...any) error {
	return fmt.Errorf("%s: %w: %s: %w: %w", t.Package, kind, t, fmt.Errorf(format, args...), store.ErrUnavailable)
}

// refusal translates an error that the server sent.
func (t Table) refusal(ctx context.Context, err error) error {
	code := Code(err)
	switch code {
	case undefinedSchema:
		return t.Unfit(ErrNoTable, "there is no such schema: create it first: %w", err)
	case undefinedTable:
		return t.Unfit(ErrNoTable, "create it with Migrate, or apply the text of Migration: %w", err)
	case undefinedColumn:
		return t.Unfit(ErrVersion, "it lacks a column: run Migrate, or apply the text of MigrationFrom: %w", err)
	case readOnly:
		return t.Unfit(ErrStandby, "%w", err)
	case unknownStatement, duplicateStatement:
		return t.unavailable(fmt.Errorf("a transaction pooler keeps no prepared statements, or a program has sent "+
			"DEALLOCATE: behind a pooler set default_query_exec_mode=exec in the connection string: %w", err))
	case queryCanceled:
		if ctx.Err() != nil {
			return ctx.Err()
		}
	case transactionFailed:
		return fmt.Errorf("%s: a statement in the transaction has failed, so that it can only be rolled back or "+
			"discarded; put a statement that may fail in a savepoint: %w", t.Package, err)
	}
	switch code[:min(2, len(code))] {
	case "22", "23", "P0":
		return fmt.Errorf("%s: %w", t.Package, err)
	}
	return t.unavailable(err)
}
