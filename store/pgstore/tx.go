package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore/pgtable"
	"github.com/redo-go/redo/store/sqltx"
)

const (
	// savepoint is set before the user's first statement. Discard returns to it. If it no longer exists, the transaction
	// was ended by its user. No user's savepoint has this name. It is the same in every process, so that poolers and
	// statistics see one statement.
	savepoint = "redo_record_d1f6a80b3c9e4725a4b70c58e2396f1d"
	// rollbackLimit bounds a rollback, which goes on after the end of the caller's context.
	rollbackLimit = 10 * time.Second
)

// SQLSTATE codes, from appendix A of the Postgres manual.
const (
	divisionByZero  = "22012"
	uniqueViolation = "23505"
	noTransaction   = "25P01"
	noSavepoint     = "3B001"
)

var (
	errOver  = errors.New("pgstore: the transaction has ended")
	errEnded = errors.New("pgstore: the transaction was ended by its user")
)

// A heldTx is an open transaction that holds the ID of a record.
type heldTx[T any] struct {
	records *records
	claim   store.Claim
	conn    connection[T]
	lease   store.Lease
	row     row                // the pending record
	written bool               // by Begin
	started pgtype.Timestamptz // by the server's clock
	over    bool
}

// begin implements store.TxStore. acquire takes a connection from the pool.
func begin[T any](
	ctx context.Context, s *records, c store.Claim, acquire func() (connection[T], error),
) (store.Tx[T], store.Grant, error) {
	if err := cmp.Or(c.Validate(), ctx.Err()); err != nil {
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
		tx = &heldTx[T]{records: s, claim: c, conn: conn}
		if g, err = tx.begin(ctx); err != nil {
			giveUp(ctx, conn, pgtable.OfSession(err))
		}
		return err
	})
	switch {
	case err != nil:
		s.leave()
		return nil, g, err
	case !g.Verdict.Owned():
		// The caller has its verdict after one round trip, and does not wait for the rollback.
		go func() {
			defer s.leave()
			giveUp(ctx, tx.conn, false)
		}()
		return nil, g, nil
	}
	s.hold(tx.lease, true)
	return tx, g, nil
}

// begin opens the transaction and takes the locks of the ID. If the ID has no record, none is written before Commit.
func (t *heldTx[T]) begin(ctx context.Context) (store.Grant, error) {
	s, c := t.records, t.claim
	var readCommitted bool
	made := row{id: c.ID, format: format, fingerprint: c.Fingerprint[:], state: zeronull.Int2(store.StatePending)}
	r := row{id: c.ID}
	l := s.sql.locksOf(c.ID)
	err := t.conn.begin(ctx, func(b *pgx.Batch) {
		b.Queue(s.sql.begin, l.turn, l.open).QueryRow(func(found pgx.Row) error {
			return found.Scan(&made.fence, &t.started, &made.createdAt, &readCommitted)
		})
		b.Queue(s.sql.beginFind, []byte(c.ID.Scope), []byte(c.ID.Key)).QueryRow(func(found pgx.Row) error {
			if err := found.Scan(r.into()...); !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
			return nil
		})
		b.Queue("SAVEPOINT " + savepoint)
	})
	if err != nil {
		return store.Grant{}, err
	}
	if g, refused, err := r.refuses(c); refused || err != nil {
		return g, err
	}
	had := made.fence != 0 // it is NULL if another transaction has a lock
	switch {
	case !readCommitted, had && r.format != 0:
		return t.beginOver(ctx, had)
	case !had:
		return held(c), nil
	}
	made.born, made.readAt = made.fence, made.createdAt
	if n := sqltx.Micros(c.Retention); n > 0 {
		made.expiresAt = pgtype.Timestamptz{Time: time.UnixMicro(made.createdAt.Time.UnixMicro() + n), Valid: true}
	}
	return t.own(made)
}

// beginOver writes the record over the one that is present. Others can't change it then. It also serves a transaction
// that could not read: see beginFindSQL. had is whether the transaction had the locks.
func (t *heldTx[T]) beginOver(ctx context.Context, had bool) (store.Grant, error) {
	r := row{id: t.claim.ID}
	err := t.conn.with(func(on *pgx.Conn) error {
		return send(ctx, on, func(b *pgx.Batch) {
			b.Queue(t.records.sql.beginWrite, t.records.sql.claimArgs(t.claim)...).QueryRow(func(found pgx.Row) error {
				return found.Scan(r.into(&t.written)...)
			})
			b.Queue("SAVEPOINT " + savepoint) // it hides the one before the record
		})
	})
	switch {
	case err != nil && !errors.Is(err, pgx.ErrNoRows):
		return store.Grant{}, err
	case t.written:
		return t.own(r)
	}
	if g, refused, err := r.refuses(t.claim); refused || err != nil {
		return g, err
	}
	if !had {
		return held(t.claim), nil
	}
	return store.Grant{}, pgtable.ErrRace
}

// own returns the grant of the transaction's own record.
func (t *heldTx[T]) own(r row) (store.Grant, error) {
	g, err := r.grant()
	t.row, t.lease = r, g.Lease
	return g, err
}

// giveUp rolls a transaction back that was not handed out. The pool closes its connection if broken is true.
func giveUp[T any](ctx context.Context, conn connection[T], broken bool) {
	ctx, cancel := lasting(ctx)
	defer cancel()
	conn.release(conn.rollback(ctx) != nil || broken)
}

func lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
}

// holds reports whether an open transaction of this store holds the ID. Its duplicates get their verdict without a
// connection, so that they do not wait for one while handlers hold the whole pool. A closed store holds none.
func (s *records) holds(id store.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[id] != 0 && !s.closed.Load()
}

// hold makes or removes the entry of a transaction. The next one of the same ID may have replaced the entry before.
func (s *records) hold(l store.Lease, held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case held:
		s.held[l.ID] = l.Fence
	case s.held[l.ID] == l.Fence:
		delete(s.held, l.ID)
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
	refused, against := t.conn.refused(), cmp.Or(o.ValidateUpTo(MaxResult), ctx.Err())
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
	text, args := t.records.sql.settle, append(append(leaseArgs(t.lease), outcomeArgs(o)...),
		t.row.fingerprint, t.row.createdAt, t.row.expiresAt, t.started)
	from, freeing := t.records.free.due()
	switch {
	case t.written:
		text, freeing = t.records.sql.settleOver, false
	case freeing:
		text, args = t.records.sql.settleFreeing, append(args, from)
	}
	var deleted freed
	settled, changed := false, false
	err := t.conn.commit(ctx, func(b *pgx.Batch) {
		b.Queue(text, args...).QueryRow(func(found pgx.Row) error {
			err := found.Scan(&deleted.n, &deleted.last, nil, &changed)
			settled = err == nil
			return err
		})
	})
	if err != nil {
		return t.unsettled(ctx, err, settled)
	}
	t.release(changed)
	if freeing {
		t.records.free.did(deleted)
	}
	t.records.free.expiresIn(cmp.Or(o.Retention, t.claim.Retention))
	return nil
}

// undo returns to the savepoint. It returns errEnded if that no longer exists.
func (t *heldTx[T]) undo(ctx context.Context) error {
	err := t.conn.with(func(on *pgx.Conn) error {
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
	answered := pgtable.ByServer(err)
	switch {
	case errors.Is(err, errEnded):
		return t.ended(ctx)
	case !settled && slices.Contains([]string{divisionByZero, uniqueViolation}, pgtable.Code(err)):
		last, cancel := lasting(ctx)
		defer cancel()
		if errors.Is(t.undo(last), errEnded) {
			return t.ended(ctx)
		}
		err = fmt.Errorf("pgstore: the record of %v has expired, is another's, or was dropped by a trigger: %w",
			t.lease.ID, store.ErrLost)
	}
	// If the server has refused the record, it has not executed the COMMIT behind it. That also holds for the message
	// with which it ends a session, but not for the message of a pooler.
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
	t.records.hold(t.lease, false)
	t.records.leave()
}
