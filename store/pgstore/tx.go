package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/redo-go/redo/store"
)

const (
	// savepoint stands between the record and what the user writes, for Discard. Of two of one name Postgres goes back to
	// the later one, which would be the user's: so it has a name that nobody else thinks of. It is the same in every
	// process, as a statement's text is what poolers and statistics know it by.
	savepoint = "redo_record_d1f6a80b3c9e4725a4b70c58e2396f1d"
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
	w := wish{outcome: o, undo: undo, against: cmp.Or(validate(o), ctx.Err())}
	unwanted := !undo && t.on.refused()
	if w.against != nil || unwanted {
		switch ended := t.rollback(ctx); {
		case errors.Is(ended, errUserEnded):
			return t.endedByUser(ctx, w)
		case unwanted:
			return w.rolledBack()
		}
		return w.against
	}
	if err := t.write(ctx, o, undo); err != nil {
		_ = t.rollback(ctx) // says no more than what went wrong before it
		if errors.Is(err, errUserEnded) || answered(err) && t.outlived(ctx) {
			return t.endedByUser(ctx, w)
		}
		if errors.Is(err, store.ErrLost) {
			return fmt.Errorf("pgstore: the record of %v has expired, or was removed: %w", t.Lease.ID, err)
		}
		return t.records.failure(ctx, err, false)
	}
	if err := t.on.commit(ctx); err != nil {
		return t.records.failure(ctx, err, true)
	}
	return nil
}

func (t *held[T]) write(ctx context.Context, o store.Outcome, undo bool) error {
	if undo {
		_, err := t.on.exec(ctx, "ROLLBACK TO SAVEPOINT "+savepoint)
		if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) && (pg.Code == noTransaction || pg.Code == noSavepoint) {
			return errBrokenOut // nothing else takes the savepoint away
		}
		if err != nil {
			return err
		}
	}
	return t.completeOn(ctx, t.on, &t.records.sql, o)
}

func (t *held[T]) Rollback(ctx context.Context) error {
	if t.over {
		return nil
	}
	t.over = true
	defer t.records.left(t.holding)
	switch err := t.rollback(ctx); {
	case errors.Is(err, errUserEnded):
		return t.endedByUser(ctx, wish{undo: true, all: true})
	case err != nil:
		return t.records.failure(ctx, err, false)
	}
	return nil
}

// rollback has time of its own: who is out of time must not leave an ID held.
func (t *held[T]) rollback(ctx context.Context) error {
	ctx, cancel := lasting(ctx)
	defer cancel()
	return t.on.rollback(ctx)
}

func lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
}
