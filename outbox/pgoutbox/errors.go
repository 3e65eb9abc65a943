package pgoutbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
)

// Why a table can't be used. Each is found with errors.Is beside [store.ErrUnavailable], and each error names the table.
var (
	// ErrNoTable: the table, or its schema, does not exist.
	ErrNoTable = errors.New("pgoutbox: table missing")
	// ErrForeign: the table is not one of this package's, or was changed. It is left alone.
	ErrForeign = errors.New("pgoutbox: not a table of this package")
	// ErrVersion: the table was made by another version of this package.
	ErrVersion = errors.New("pgoutbox: table of another version")
	// ErrStandby: the server is a standby; the queue has to be on the primary.
	ErrStandby = errors.New("pgoutbox: server is a standby")
)

// errNotPrepared says what to set: the session that a statement was prepared in is not the one that it is sent to.
var errNotPrepared = fmt.Errorf("pgoutbox: a transaction pooler keeps no prepared statements: "+
	"set default_query_exec_mode=exec in the connection string: %w", store.ErrUnavailable)

// SQLSTATE codes, from appendix A of the Postgres manual.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	uniqueViolation      = "23505"
	readOnly             = "25006"
	duplicateTable       = "42P07"
	undefinedTable       = "42P01"
	undefinedSchema      = "3F000"
	queryCanceled        = "57014"
	unknownStatement     = "26000"
	duplicateStatement   = "42P05"
)

// maxTries bounds how often a statement is made again.
const maxTries = 50

// run calls f, which makes one statement, on a connection of the pool until it is through, and translates its error. writes
// says that it may change something.
func (q *Queue) run(ctx context.Context, writes bool, f func(on *pgxpool.Conn) error) error {
	for try := 1; ; try++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := q.pool.AcquireFunc(ctx, f)
		switch {
		case err == nil, errors.Is(err, store.ErrLost), errors.Is(err, outbox.ErrNoLetter):
			return err
		case !q.again(err, writes) || ctx.Err() != nil || try == maxTries:
			return q.failure(ctx, err, writes)
		}
		t := time.NewTimer(backoff(try, rand.Float64()))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
}

// backoff is the pause after a try: none after the first, then up to 1 ms, doubling up to 32 ms. r is in [0, 1).
func backoff(try int, r float64) time.Duration {
	if try == 1 {
		return 0
	}
	return time.Duration(r * float64(time.Millisecond<<min(try-2, 5)))
}

// again reports whether a statement that failed so has changed nothing and may do better the next time: two claims met at
// one ordering key, for instance.
func (q *Queue) again(err error, writes bool) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code == serializationFailure || pg.Code == deadlockDetected ||
			pg.Code == uniqueViolation && pg.ConstraintName == q.table+"_busy"
	}
	return unsent(err, writes)
}

// unsent holds where nothing was sent, or nothing can have come of it. That a connection is closed proves nothing, though pgx
// calls it safe to retry: where it sends a statement as text it also says so when the answer was lost.
func unsent(err error, writes bool) bool {
	if errors.Is(err, pgconn.ErrConnClosed) {
		return !writes
	}
	return pgconn.SafeToRetry(err)
}

// failure says in the contract's words what became of a statement.
func (q *Queue) failure(ctx context.Context, err error, writes bool) error {
	pg, answered := errors.AsType[*pgconn.PgError](err)
	ended := ctx.Err()
	switch {
	case answered && !endsSession(pg):
		return q.refusal(ctx, pg)
	case unsent(err, writes) || !writes:
		if ended != nil {
			return ended
		}
		return fmt.Errorf("pgoutbox: %w: %w", store.ErrUnavailable, err)
	case ended != nil:
		return fmt.Errorf("pgoutbox: %w: %w: %w", store.ErrUnknown, ended, err)
	}
	return fmt.Errorf("pgoutbox: %w: %w", store.ErrUnknown, err)
}

// endsSession holds for errors after which nothing is known of the statement: the server gave the session up, and may have
// committed before.
func endsSession(pg *pgconn.PgError) bool {
	return pg.SeverityUnlocalized == "FATAL" || pg.SeverityUnlocalized == "PANIC" || strings.HasPrefix(pg.Code, "08")
}

// refusal translates an error that the server answered with: it has rolled the statement back.
func (q *Queue) refusal(ctx context.Context, pg *pgconn.PgError) error {
	switch pg.Code {
	case undefinedTable, undefinedSchema:
		return fmt.Errorf("%w: %s: create it with Migrate, or apply the text of Migration: %w: %w", ErrNoTable, q.name(), pg, store.ErrUnavailable)
	case readOnly:
		return fmt.Errorf("%w: %w: %w", ErrStandby, pg, store.ErrUnavailable)
	case unknownStatement, duplicateStatement:
		return fmt.Errorf("%w: %w", errNotPrepared, pg)
	case queryCanceled:
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return fmt.Errorf("pgoutbox: %w: %w", store.ErrUnavailable, pg)
}
