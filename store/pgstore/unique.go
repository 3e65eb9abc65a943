package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// A Beginner is a *pgxpool.Pool, a *pgxpool.Conn, a *pgx.Conn, or a pgx.Tx, which begins a savepoint.
type Beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// A KeyedRow is a row that carries its idempotency key itself, in a column with a unique constraint, such as
// orders.idempotency_key. [InsertKeyed] inserts it once. Every field must be set.
//
// That alone is enough, without a [Store], when the row is the whole effect, the answer can be made from the row, the
// row keeps its key for as long as clients retry, and Same compares the payload. It is not enough when there is anything
// beside the row: a second insert, a call to somebody else, an answer that can't be made again, a refusal to be remembered, or
// a row that changes its key or is deleted. Use [Store.Begin] then. Nor does it scope a key: where two callers may use the
// same one, their names belong into the constraint.
type KeyedRow[T any] struct {
	// Constraint is the name of the unique constraint or index on the key, which must not be deferrable. A violation
	// of any other is returned as it is.
	Constraint string
	// Insert inserts the row and returns it. It may be called again after a rollback.
	Insert func(ctx context.Context, tx pgx.Tx) (T, error)
	// Find returns the row with the key, or an error that wraps pgx.ErrNoRows. It runs in a transaction of its own.
	Find func(ctx context.Context, tx pgx.Tx) (T, error)
	// Same reports whether the row that was found was made from this caller's payload.
	Same func(found T) bool
}

// vanishes is how often a row may be gone between the violation and the look.
const vanishes = 10

// InsertKeyed inserts the row, or returns the one that has its key, with inserted false. The error wraps
// taxonomy.PayloadMismatch, beside the row that was found, when that was made from another payload.
//
// On a pool or a connection the insert is a transaction of its own; an error that wraps store.ErrUnknown means that its
// commit may have been made: call again, which tells. In a pgx.Tx it stands in a savepoint, and the transaction is
// good for more after a violation. An insert waits for another one of the same key until that is committed or rolled back,
// or ctx ends. A row that is deleted between the violation and the look is inserted anew. When that goes on, or when the
// transaction is repeatable read or serializable and began before the other row was committed, so that it can't see it,
// the error wraps store.ErrUnavailable: begin again.
func InsertKeyed[T any](ctx context.Context, db Beginner, k KeyedRow[T]) (row T, inserted bool, err error) {
	var zero T
	if db == nil || k.Constraint == "" || k.Insert == nil || k.Find == nil || k.Same == nil {
		return zero, false, fmt.Errorf("pgstore: %w: InsertKeyed needs a database and every field of KeyedRow", store.ErrInvalid)
	}
	for range vanishes {
		row, err = within(ctx, db, true, k.Insert)
		if err == nil {
			return row, true, nil
		}
		if !violates(err, k.Constraint) {
			return zero, false, err
		}
		row, err = within(ctx, db, false, k.Find)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
		case err != nil:
			return zero, false, err
		case !k.Same(row):
			return row, false, fmt.Errorf("pgstore: the key of %q was used for another payload: %w", k.Constraint, taxonomy.PayloadMismatch)
		default:
			return row, false, nil
		}
	}
	return zero, false, fmt.Errorf("pgstore: %w: the row that violates %q could not be seen in %d tries", store.ErrUnavailable, k.Constraint, vanishes)
}

// within calls f in a transaction, or a savepoint, that is committed unless f fails.
func within[T any](ctx context.Context, db Beginner, writes bool, f func(ctx context.Context, tx pgx.Tx) (T, error)) (row T, err error) {
	var zero T
	tx, err := db.Begin(ctx)
	if err != nil {
		return zero, fmt.Errorf("pgstore: %w", err)
	}
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
		defer cancel()
		_ = tx.Rollback(last) // does nothing after a commit
	}()
	if row, err = f(ctx, tx); err != nil {
		return zero, err
	}
	err = tx.Commit(ctx)
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return row, nil
	case !writes, unsent(err, true), errors.Is(err, pgx.ErrTxCommitRollback), errors.As(err, &pg) && !endsSession(pg):
		return zero, fmt.Errorf("pgstore: %w", err)
	}
	return zero, fmt.Errorf("pgstore: %w: %w", store.ErrUnknown, err)
}

func violates(err error, constraint string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == uniqueViolation && pg.ConstraintName == constraint
}
