package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redo-go/redo/store"
)

const (
	// savepoint stands between the record and what the user writes, for Discard.
	savepoint = "redo_record"
	// rollbackLimit bounds a rollback, which must not end with the caller's context.
	rollbackLimit = 10 * time.Second
)

// A held is an open transaction of an engine that holds a record, as its user sees it.
type held[T any] struct {
	records *records
	holding *holding
	reservation
	on   transaction
	tx   T
	over bool
}

// open is Begin for every engine; shown takes from its transaction what the user gets.
func open[T any](ctx context.Context, r *records, c store.Claim, shown func(transaction) T) (store.Tx[T], store.Grant, error) {
	on, h, err := r.begin(ctx, c)
	if on == nil {
		return nil, h.Grant, err
	}
	return &held[T]{records: r, holding: r.held.hold(c), reservation: h, on: on, tx: shown(on)}, h.Grant, nil
}

// begin counts the transaction that it returns; where it returns none there is a verdict or an error.
func (s *records) begin(ctx context.Context, c store.Claim) (on transaction, h reservation, err error) {
	if err := c.Validate(); err != nil {
		return nil, reservation{}, err
	}
	if err := s.ready(ctx); err != nil {
		return nil, reservation{}, err
	}
	if g, held := s.held.grant(c); held {
		return nil, reservation{Grant: g}, nil
	}
	if !s.held.enter() {
		return nil, reservation{}, errClosed
	}
	err = s.retry(ctx, func() error {
		return s.on(ctx, false, func(conn connection) (err error) {
			if on, h, err = s.beginOn(ctx, conn, c); on == nil {
				conn.release()
			}
			return err
		})
	})
	if on == nil {
		s.left(nil)
	}
	return on, h, err
}

// beginOn looks before it opens a transaction: a record that stands in the way costs no more than the look.
func (s *records) beginOn(ctx context.Context, conn connection, c store.Claim) (transaction, reservation, error) {
	seen := func(g store.Grant) (transaction, reservation, error) { return nil, reservation{Grant: g}, nil }
	failed := func(err error) (transaction, reservation, error) { return nil, reservation{}, err }
	rec, err := s.sql.findOn(ctx, conn, c.ID)
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return failed(err)
	case standsInTheWay(c, rec):
		return seen(store.Grant{Verdict: verdictOn(c, rec), Record: rec})
	}
	on, h, err := conn.begin(ctx, &s.sql, c)
	if !errors.Is(err, errLostRace) {
		return on, h, err
	}
	switch who, err := holderOn(ctx, conn, s.sql.lockOf(c)); {
	case err != nil:
		return failed(err)
	case who == nobody:
		return failed(errLostRace)
	default:
		return seen(unseen(c, who == another))
	}
}

// left is told of each transaction that is over, or did not come to be.
func (s *records) left(h *holding) {
	if s.held.leave(h) {
		s.engine.shut()
	}
}

func (t *held[T]) Tx() T { return t.tx }

func (t *held[T]) Commit(ctx context.Context, o store.Outcome) error { return t.settle(ctx, o, false) }

func (t *held[T]) Discard(ctx context.Context, o store.Outcome) error { return t.settle(ctx, o, true) }

func (t *held[T]) settle(ctx context.Context, o store.Outcome, undo bool) error {
	if t.over {
		return errOver
	}
	t.over = true
	defer t.records.left(t.holding)
	if err := validate(o); err != nil {
		if ended := t.rollback(ctx); errors.Is(ended, errUserEnded) {
			return fmt.Errorf("%w: %w: %w", err, ended, store.ErrUnknown)
		}
		return err
	}
	if err := ctx.Err(); err != nil {
		return t.late(ctx, o, err)
	}
	if err := t.write(ctx, o, undo); err != nil {
		_ = t.rollback(ctx) // says no more than what went wrong before it
		return t.unsettled(ctx, o, err)
	}
	if err := t.on.commit(ctx); err != nil {
		return t.records.failure(ctx, err, true)
	}
	return nil
}

func (t *held[T]) write(ctx context.Context, o store.Outcome, undo bool) error {
	if undo {
		if _, err := t.on.exec(ctx, "ROLLBACK TO SAVEPOINT "+savepoint); err != nil {
			return err
		}
	}
	return t.completeOn(ctx, t.on, &t.records.sql, o)
}

// late ends a transaction whose owner comes when the context has ended. What the user has committed is settled all the same.
func (t *held[T]) late(ctx context.Context, o store.Outcome, cause error) error {
	ended := t.rollback(ctx)
	if !errors.Is(ended, errUserEnded) {
		return cause
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
	defer cancel()
	if err := t.unsettled(ctx, o, ended); err != nil {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return nil
}

// unsettled translates why the record could not be settled in its transaction. Where the user has ended that, the record
// is settled by itself if it was committed: so was the effect, and the next caller would else make it again.
func (t *held[T]) unsettled(ctx context.Context, o store.Outcome, cause error) error {
	switch {
	case errors.Is(cause, store.ErrLost):
		return fmt.Errorf("pgstore: the record of %v has expired, or was removed: %w", t.Lease.ID, cause)
	case !errors.Is(cause, errUserEnded):
		return t.records.failure(ctx, cause, false)
	}
	err := t.records.run(ctx, true, func(on session) error {
		return completeOn(ctx, on, t.records.sql.complete, t.Lease, o)
	})
	switch {
	case errors.Is(err, store.ErrLost):
		return fmt.Errorf("%w: it was rolled back, and nothing is recorded: %w", cause, err)
	case err != nil:
		return fmt.Errorf("%w: %w: %w", cause, store.ErrUnknown, err)
	case errors.Is(cause, errBrokenOut):
		return fmt.Errorf("%w: %w", cause, store.ErrUnknown)
	}
	return nil
}

func (t *held[T]) Rollback(ctx context.Context) error {
	if t.over {
		return nil
	}
	t.over = true
	defer t.records.left(t.holding)
	err := t.rollback(ctx)
	if err == nil || errors.Is(err, errUserEnded) {
		return err
	}
	return t.records.failure(ctx, err, false)
}

// rollback has time of its own: who is out of time must not leave an ID held.
func (t *held[T]) rollback(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
	defer cancel()
	return t.on.rollback(ctx)
}
