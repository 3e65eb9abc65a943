package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/redo-go/redo/store"
)

// A wish is what was asked of a transaction at its end: to keep the outcome with what the user has written, without it
// (undo), or to keep nothing (all). against is what else speaks against it.
type wish struct {
	outcome   store.Outcome
	undo, all bool
	against   error
}

// endedByUser says what became of a transaction that its user has ended, as store.ErrTxEnded has it, and sees to the record
// of one that was committed. It is the server that knows: neither driver tells a commit of the user's from a rollback, nor
// does the record, which others may have moved on since.
func (t *held[T]) endedByUser(ctx context.Context, w wish) error {
	ctx, cancel := lasting(ctx)
	defer cancel()
	became, err := t.fate(ctx)
	switch {
	case err != nil:
		return w.committed(fmt.Errorf("what became of it can't be read: %w", err))
	case became == aborted:
		return w.rolledBack()
	case became != committed:
		return w.committed(fmt.Errorf("the server does not tell what became of it: %q", became))
	}
	text, o := t.records.sql.complete, w.outcome
	if w.undo || errors.Is(w.against, store.ErrInvalid) {
		text, o = t.records.sql.completeNobodys, store.UnknownOutcome()
	}
	err = t.records.anyway(ctx, true, func(on session) error { return completeOn(ctx, on, text, t.Lease, o) })
	if err != nil {
		return w.committed(fmt.Errorf("its record is not settled: %w", err))
	}
	return w.committed(nil)
}

// committed is the answer where the user's writes stand, or may. Why more is not known is text alone: it is no answer to
// the wish.
func (w wish) committed(why error) error {
	err := fmt.Errorf("%w: it was committed, or may have been: %w", errUserEnded, store.ErrUnknown)
	if why != nil {
		err = fmt.Errorf("%w: %s", err, why.Error())
	}
	return errors.Join(w.against, err)
}

// rolledBack is the answer where nothing was done and nothing is recorded. Rollback asks for no more.
func (w wish) rolledBack() error {
	if w.all {
		return nil
	}
	return errors.Join(w.against, fmt.Errorf("%w: it was rolled back, and nothing is recorded: %w", errUserEnded, store.ErrInvalid))
}

// Fates of a transaction, in the words of pg_xact_status.
const (
	committed = "committed"
	aborted   = "aborted"
)

func (t *held[T]) fate(ctx context.Context) (became string, err error) {
	err = t.records.anyway(ctx, false, func(on session) error {
		return on.queryRow(ctx, fateSQL, t.xact).Scan(&became)
	})
	return became, err
}

// outlived reports whether the transaction was committed by its user and the statements since were in another.
func (t *held[T]) outlived(ctx context.Context) bool {
	ctx, cancel := lasting(ctx)
	defer cancel()
	became, err := t.fate(ctx)
	return err == nil && became == committed
}

// answered holds for what a server that is up has said of a statement in the transaction.
func answered(err error) bool {
	var pg *pgconn.PgError
	return errors.Is(err, store.ErrLost) || errors.As(err, &pg) && !endsSession(pg)
}
