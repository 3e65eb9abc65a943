package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore/pgtable"
)

const (
	// savepoint is set after the record was written. Discard returns to it. If it no longer exists, the transaction was
	// ended by its user. No user's savepoint has this name. It is the same in every process, so that poolers and
	// statistics see one statement.
	savepoint = "redo_record_d1f6a80b3c9e4725a4b70c58e2396f1d"
	// rollbackLimit bounds a rollback, which goes on after the end of the caller's context.
	rollbackLimit = 10 * time.Second
)

// SQLSTATE codes, from appendix A of the Postgres manual.
const (
	divisionByZero = "22012"
	noTransaction  = "25P01"
	noSavepoint    = "3B001"
)

var (
	errOver  = errors.New("pgstore: the transaction has ended")
	errEnded = errors.New("pgstore: the transaction was ended by its user")
)

// A heldTx is an open transaction that holds a record.
type heldTx[T any] struct {
	records *records
	claim   store.Claim
	conn    connection[T]
	lease   store.Lease
	row     written
	over    bool
}

// written is the place where a transaction has written its record.
type written struct {
	place string // of the row
	xact  string // the transaction's number
}

// begin implements store.TxStore. acquire takes a connection from the pool.
func begin[T any](
	ctx context.Context, s *records, c store.Claim, acquire func() (connection[T], error),
) (store.Tx[T], store.Grant, error) {
	if err := cmp.Or(c.Validate(), s.ready(ctx)); err != nil {
		return nil, store.Grant{}, err
	}
	c.Lease, c.Owner, c.Meta = 0, "", nil // the transaction excludes others
	if s.holds(c.ID) {
		return nil, held(c), nil
	}
	if err := s.enter(); err != nil {
		return nil, store.Grant{}, err
	}
	var g store.Grant
	var tx *heldTx[T]
	err := s.table.Do(ctx, false, func() error {
		conn, err := acquire()
		if err != nil {
			return err
		}
		var row written
		g, row, err = beginOn(ctx, s, conn, c)
		if err == nil && g.Verdict.Owned() {
			tx = &heldTx[T]{records: s, claim: c, conn: conn, lease: g.Lease, row: row}
			return nil
		}
		if err != nil {
			giveUp(ctx, conn)
			return err
		}
		// The caller has its verdict after one round trip, and does not wait for the rollback.
		if again := s.enter(); again == nil {
			go func() {
				defer s.leave()
				giveUp(ctx, conn)
			}()
			return nil
		}
		giveUp(ctx, conn)
		return nil
	})
	if tx == nil {
		s.leave()
		return nil, g, err
	}
	s.hold(c.ID, true)
	return tx, g, nil
}

// beginOn opens a transaction and writes the record in it.
func beginOn[T any](
	ctx context.Context, s *records, conn connection[T], c store.Claim,
) (g store.Grant, w written, err error) {
	r := row{id: c.ID}
	var turn, open bool
	reserve := func(text string) func(b *pgx.Batch) {
		return func(b *pgx.Batch) {
			b.Queue(text, s.sql.claimArgs(c)...).QueryRow(func(found pgx.Row) error {
				return found.Scan(r.into(&turn, &open, &w.place, &w.xact)...)
			})
			b.Queue("SAVEPOINT " + savepoint)
		}
	}
	if err := conn.begin(ctx, reserve(s.sql.begin)); err != nil {
		return store.Grant{}, written{}, err
	}
	if r.format != 0 && w.place == "" { // the ID has a record
		if !r.expired() {
			rec, err := r.record()
			if err != nil {
				return store.Grant{}, written{}, err
			}
			if v := store.Judge(rec, c, rec.ReadAt); !v.Owned() {
				return store.Grant{Verdict: v, Record: rec}, written{}, nil
			}
		}
		if turn {
			r = row{id: c.ID}
			err = conn.with(func(on *pgx.Conn) error {
				return send(ctx, on, func(b *pgx.Batch) {
					b.Queue("RELEASE SAVEPOINT " + savepoint)
					reserve(s.sql.beginOver)(b)
				})
			})
		}
	}
	switch {
	case err != nil:
		return store.Grant{}, written{}, err
	case !turn, w.place != "" && !open:
		return held(c), written{}, nil
	case r.format == 0:
		return store.Grant{}, written{}, pgtable.ErrRace
	}
	g, err = r.grant()
	return g, w, err
}

// giveUp rolls a transaction back that was not handed out.
func giveUp[T any](ctx context.Context, conn connection[T]) {
	ctx, cancel := lasting(ctx)
	defer cancel()
	conn.release(conn.rollback(ctx) != nil)
}

func lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
}

// holds reports whether an open transaction of this store holds the ID. Its duplicates get their verdict without a
// connection, so that they do not wait for one while handlers hold the whole pool.
func (s *records) holds(id store.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[id]
}

func (s *records) hold(id store.ID, held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.held, id); held {
		s.held[id] = true
	}
}

// enter counts a transaction until leave, unless the store is closed.
func (s *records) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed.Load() {
		return errClosed
	}
	s.open++
	return nil
}

func (s *records) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
}

func (t *heldTx[T]) Tx() T { return t.conn.tx() }

func (t *heldTx[T]) Commit(ctx context.Context, o store.Outcome) error {
	return t.settle(ctx, o, false)
}

func (t *heldTx[T]) Discard(ctx context.Context, o store.Outcome) error {
	return t.settle(ctx, o, true)
}

// settle commits the record, with the user's writes unless discard is true.
func (t *heldTx[T]) settle(ctx context.Context, o store.Outcome, discard bool) error {
	if t.over {
		return errOver
	}
	refused, against := t.conn.refused(), cmp.Or(validate(o), ctx.Err())
	if refused || against != nil {
		if err := t.Rollback(ctx); errors.Is(err, store.ErrTxEnded) {
			return errors.Join(err, against)
		}
		if refused {
			return fmt.Errorf("pgstore: %w: its user called Rollback, nothing is committed", store.ErrTxEnded)
		}
		return against
	}
	t.over = true
	if discard {
		// pgx prepares the statements of a batch before it sends them, which a failed transaction refuses.
		if err := t.undo(ctx); err != nil {
			return t.unsettled(ctx, err, false)
		}
	}
	var deleted freed
	text, args := t.records.sql.settle, append(append(leaseArgs(t.lease), outcomeArgs(o)...), t.row.place, t.row.xact)
	from, freeing := t.records.free.due()
	if freeing {
		text, args = t.records.sql.settleFreeing, append(args, from)
	}
	settled := false
	err := t.conn.with(usable)
	if err == nil {
		err = t.conn.commit(ctx, func(b *pgx.Batch) {
			b.Queue(text, args...).QueryRow(func(found pgx.Row) error {
				var one int64
				err := found.Scan(&one, &deleted.n, &deleted.last)
				settled = err == nil
				return err
			})
		})
	}
	if err != nil {
		return t.unsettled(ctx, err, settled)
	}
	t.release(false)
	if freeing {
		t.records.free.did(deleted)
	}
	return nil
}

// usable returns an error if the session is closed or in no transaction.
func usable(on *pgx.Conn) error {
	if on.PgConn().TxStatus() == 'I' && !on.IsClosed() {
		return errEnded
	}
	return pgtable.Acquired(on, nil)
}

// undo returns to the savepoint. It returns errEnded if that no longer exists.
func (t *heldTx[T]) undo(ctx context.Context) error {
	err := t.conn.with(func(on *pgx.Conn) error {
		if err := pgtable.Acquired(on, nil); err != nil {
			return err
		}
		_, err := on.Exec(ctx, "ROLLBACK TO SAVEPOINT "+savepoint)
		return err
	})
	switch pgtable.Code(err) {
	case noTransaction, noSavepoint:
		return errEnded
	}
	return err
}

// unsettled ends a transaction that failed to settle its record or, if settled is true, to commit.
func (t *heldTx[T]) unsettled(ctx context.Context, err error, settled bool) error {
	_, answered := errors.AsType[*pgconn.PgError](err)
	switch {
	case errors.Is(err, errEnded):
		return t.ended(ctx)
	case !settled && pgtable.Code(err) == divisionByZero: // the row is gone, or the transaction is another one
		last, cancel := lasting(ctx)
		defer cancel()
		if errors.Is(t.undo(last), errEnded) {
			return t.ended(ctx)
		}
		err = fmt.Errorf("pgstore: the record of %v has expired, or was removed: %w", t.lease.ID, store.ErrLost)
	}
	// If the server has refused the record, it has not executed the COMMIT behind it. That also holds for the message
	// with which it ends a session.
	committed := (settled || !answered) && !errors.Is(err, pgtable.ErrRace)
	return t.failed(ctx, err, committed)
}

func (t *heldTx[T]) Rollback(ctx context.Context) error {
	if t.over {
		return nil
	}
	t.over = true
	last, cancel := lasting(ctx)
	defer cancel()
	err := t.undo(last)
	switch {
	case errors.Is(err, errEnded):
		return t.ended(ctx)
	case err != nil:
		return t.failed(ctx, err, false)
	}
	err = t.conn.rollback(last)
	t.release(err != nil)
	if err != nil {
		return t.records.table.Failure(last, err, false)
	}
	return nil
}

// failed rolls the transaction back and returns the error that ended it. committed means that it may be committed.
func (t *heldTx[T]) failed(ctx context.Context, err error, committed bool) error {
	last, cancel := lasting(ctx)
	defer cancel()
	t.release(t.conn.rollback(last) != nil)
	return t.records.table.Failure(ctx, err, committed)
}

// ended settles the record of a transaction that its user has ended. The session may have been used for anything else,
// so that it is closed.
func (t *heldTx[T]) ended(ctx context.Context) error {
	last, cancel := lasting(ctx)
	defer cancel()
	_ = t.conn.rollback(last)
	t.release(true)
	return fmt.Errorf("pgstore: %v: %w", t.lease.ID, store.SettleEnded(ctx, t.records, t.claim))
}

// release gives the connection back. The ID is free for other calls of this store.
func (t *heldTx[T]) release(broken bool) {
	t.conn.release(broken)
	t.records.hold(t.lease.ID, false)
	t.records.leave()
}
