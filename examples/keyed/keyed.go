// Package keyed inserts a row that carries its idempotency key itself, in a column with a unique constraint such as
// orders.idempotency_key. It is an example to copy: no store is needed if one row is the whole effect.
package keyed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// A Beginner is a *pgxpool.Pool, a *pgxpool.Conn, a *pgx.Conn, or a pgx.Tx, whose Begin sets a savepoint.
type Beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// A Row is a row that carries its key. [Insert] inserts it once. Every field must be set.
//
// The unique key is enough if all of this holds. The row is the whole effect. The response can be made from the row.
// The row keeps its key for as long as clients retry. Same compares the payload.
//
// It is not enough if the handler does anything else, for example a second insert or a call to another service. It does
// not keep a refusal. Use pgstore's Begin then. The key has no scope: add the caller's name to the constraint if two
// callers may use the same key.
type Row[T any] struct {
	// Constraint is the name of the unique constraint or index on the key, which must not be deferrable. A violation of
	// another constraint is returned as it is.
	Constraint string
	// Insert inserts the row and returns it. It may be called again after a rollback.
	Insert func(ctx context.Context, tx pgx.Tx) (T, error)
	// Find returns the row with the key, or an error that wraps pgx.ErrNoRows. It runs in a separate transaction.
	Find func(ctx context.Context, tx pgx.Tx) (T, error)
	// Same reports whether the row that was found was made from this caller's payload.
	Same func(found T) bool
}

const (
	// attempts is the number of times that a row may be deleted between the violation and Find.
	attempts        = 10
	rollbackTimeout = 10 * time.Second
	uniqueViolation = "23505"
)

// Insert inserts the row, or returns the row that has its key, with inserted false. If that was made from another
// payload, the error wraps taxonomy.PayloadMismatch.
//
// On a pool or a connection the insert is a separate transaction. If the error wraps store.ErrUnknown, its commit
// may have been made: call Insert again. In a pgx.Tx the insert is a savepoint, and the transaction can go on
// after a violation. An insert waits for another one of the same key until that is committed or rolled back, or
// ctx ends. A row that is deleted between the violation and Find is inserted anew. If that happens ten times, or
// if the transaction is repeatable read and can't see the row, the error wraps store.ErrUnavailable.
func Insert[T any](ctx context.Context, db Beginner, k Row[T]) (row T, inserted bool, err error) {
	var zero T
	if db == nil || k.Constraint == "" || k.Insert == nil || k.Find == nil || k.Same == nil {
		return zero, false, fmt.Errorf("keyed: %w: Insert needs a database and every field of Row", store.ErrInvalid)
	}
	for range attempts {
		row, err = within(ctx, db, true, k.Insert)
		if err == nil {
			return row, true, nil
		}
		pg, ok := errors.AsType[*pgconn.PgError](err)
		if !ok || pg.Code != uniqueViolation || pg.ConstraintName != k.Constraint {
			return zero, false, err
		}
		row, err = within(ctx, db, false, k.Find)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
		case err != nil:
			return zero, false, err
		case !k.Same(row):
			return row, false, fmt.Errorf("keyed: the key of %q was used for another payload: %w",
				k.Constraint, taxonomy.PayloadMismatch)
		default:
			return row, false, nil
		}
	}
	return zero, false, fmt.Errorf("keyed: %w: the row that violates %q could not be seen in %d attempts",
		store.ErrUnavailable, k.Constraint, attempts)
}

// within calls f in a transaction, or a savepoint, and commits it unless f fails.
func within[T any](
	ctx context.Context,
	db Beginner,
	writes bool,
	f func(ctx context.Context, tx pgx.Tx) (T, error),
) (row T, err error) {
	var zero T
	tx, err := db.Begin(ctx)
	if err != nil {
		return zero, fmt.Errorf("keyed: %w", err)
	}
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_ = tx.Rollback(last) // does nothing after a commit
	}()
	if row, err = f(ctx, tx); err != nil {
		return zero, err
	}
	err = tx.Commit(ctx)
	pg, answered := errors.AsType[*pgconn.PgError](err)
	switch {
	case err == nil:
		return row, nil
	case !writes, answered && pg.Severity == "ERROR", errors.Is(err, pgx.ErrTxCommitRollback):
		return zero, fmt.Errorf("keyed: %w", err)
	}
	return zero, fmt.Errorf("keyed: %w: %w", store.ErrUnknown, err)
}
