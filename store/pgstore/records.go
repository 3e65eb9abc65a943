package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore/pgtable"
	"github.com/redo-go/redo/store/sqltx"
)

// MaxResult is the longest result that Complete accepts, in bytes. A longer one is store.ErrInvalid. Postgres limits a
// row and a message to 1 GiB, in which a result may have twice its length.
const MaxResult = 256 << 20

var errClosed = fmt.Errorf("pgstore: closed: %w", store.ErrUnavailable)

// records is a store over a pool of either kind.
type records struct {
	*store.Poller
	migrate bool // [WithMigrate]
	table   pgtable.Table
	sql     statements
	conns   pgtable.Conns
	free    freer
	shut    func() // closes the pool; nil if the pool is not the store's

	mu     sync.Mutex
	open   int                 // transactions, with those that are being opened
	held   map[store.ID]uint64 // the fences of open transactions
	closed atomic.Bool
}

func newRecords(conns pgtable.Conns, opts []Option) (*records, error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	s := &records{table: cfg.records(), conns: conns, migrate: cfg.migrate, held: map[store.ID]uint64{}}
	s.sql, s.Poller = newStatements(s.table), store.Poll(s)
	return s, nil
}

// Close makes all methods return an error that wraps store.ErrUnavailable. If the store came from Open, Close closes
// its connections: those of running calls and transactions when these end. It waits for running calls, and not for
// transactions, which can be committed and rolled back as before. Closing again does nothing. Close always returns nil.
func (s *records) Close() error {
	s.mu.Lock()
	again, open := s.closed.Swap(true), s.open
	s.mu.Unlock()
	if s.shut == nil || again {
		return nil
	}
	closed := make(chan struct{})
	go func() {
		s.shut()
		close(closed)
	}()
	if open == 0 {
		<-closed
	}
	return nil
}

// with is the pgtable.Conns of a store, which may be closed.
func (s *records) with(ctx context.Context, f func(on *pgx.Conn) error) error {
	if s.closed.Load() {
		return errClosed
	}
	return s.conns(ctx, f)
}

// run calls f, which sends one statement, and repeats it as pgtable.Do does. writes means that it may change something.
func (s *records) run(ctx context.Context, writes bool, f func(on *pgx.Conn) error) error {
	return s.table.Run(ctx, s.with, writes, f)
}

// Reserve implements [store.Store], in one statement. An ID that an open transaction holds is InFlight without a
// wait, after a second statement if the transaction is another store's. A Reserve that creates a record deletes up
// to two expired ones.
func (s *records) Reserve(ctx context.Context, c store.Claim) (g store.Grant, err error) {
	if err := cmp.Or(c.Validate(), ctx.Err()); err != nil {
		return store.Grant{}, err
	}
	if s.holds(c.ID) {
		return held(c), nil
	}
	err = s.run(ctx, true, func(on *pgx.Conn) (err error) {
		g, err = s.reserveOn(ctx, on, c)
		return err
	})
	return g, err
}

func (s *records) reserveOn(ctx context.Context, on *pgx.Conn, c store.Claim) (store.Grant, error) {
	var owned bool
	var deleted freed
	r := row{id: c.ID}
	text, args, into := s.sql.reserve, s.sql.claimArgs(c), r.into(&owned)
	from, freeing := s.free.due()
	if freeing {
		text, args, into = s.sql.reserveFreeing, append(args, from), r.into(&owned, &deleted.n, &deleted.last)
	}
	err := on.QueryRow(ctx, text, args...).Scan(into...)
	switch {
	case pgtable.Code(err) == lockNotAvailable:
		// A transaction of an earlier release has the turn, or another session has locked the row or the table.
		return heldOr(ctx, on, c, s.sql.locksOf(c.ID).turn, err)
	case errors.Is(err, pgx.ErrNoRows):
		return heldOr(ctx, on, c, s.sql.locksOf(c.ID).open, pgtable.ErrRace)
	case err != nil:
		return store.Grant{}, err
	case !owned:
		if freeing {
			s.free.refused()
		}
		return r.judge(c)
	}
	if freeing {
		s.free.did(deleted)
	}
	s.free.expiresIn(c.Retention)
	return r.grant()
}

// heldOr returns the grant of a claim whose ID an open transaction holds with the lock, or otherwise the error.
func heldOr(ctx context.Context, on *pgx.Conn, c store.Claim, lock int64, otherwise error) (store.Grant, error) {
	var isHeld bool
	if err := on.QueryRow(ctx, heldSQL, lock).Scan(&isHeld); err != nil {
		return store.Grant{}, err
	}
	if isHeld {
		return held(c), nil
	}
	return store.Grant{}, otherwise
}

const lockNotAvailable = "55P03"

// Extend implements [store.Store]. A negative d and store.Forever are refused with store.ErrInvalid.
func (s *records) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	if err := l.ValidateExtend(d, meta); err != nil {
		return err
	}
	return s.change(ctx, s.sql.extend, l, sqltx.Micros(d), meta)
}

// Complete implements [store.Store]. A result longer than [MaxResult] is refused with store.ErrInvalid.
func (s *records) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	if err := o.ValidateUpTo(MaxResult); err != nil {
		return err
	}
	text := s.sql.complete
	if o.Lazy {
		text = s.sql.completeLazy
	}
	err := s.change(ctx, text, l, outcomeArgs(o)...)
	if err == nil && o.Retention > 0 {
		s.free.expiresIn(o.Retention)
	}
	return err
}

// outcomeArgs returns the arguments $4 to $6 of the statements that settle a record.
func outcomeArgs(o store.Outcome) []any {
	return []any{sqltx.State(o), o.Result, sqltx.Micros(o.Retention)}
}

// Release implements [store.Store].
func (s *records) Release(ctx context.Context, l store.Lease) error {
	return s.change(ctx, s.sql.release, l)
}

// Forget implements [store.Forgetter].
func (s *records) Forget(ctx context.Context, l store.Lease) error {
	return s.change(ctx, s.sql.forget, l)
}

// change runs a statement that compares the lease's fence. It returns store.ErrLost if that changes no record.
func (s *records) change(ctx context.Context, text string, l store.Lease, more ...any) error {
	return s.run(ctx, true, func(on *pgx.Conn) error {
		tag, err := on.Exec(ctx, text, append(leaseArgs(l), more...)...)
		if err == nil && tag.RowsAffected() == 0 {
			return store.ErrLost
		}
		return err
	})
}

// leaseArgs returns the arguments $1 to $3 of a statement that compares the lease's fence. A fence above the range of
// an int64 becomes negative, and no record has such a fence.
func leaseArgs(l store.Lease) []any {
	return []any{[]byte(l.ID.Scope), []byte(l.ID.Key), int64(l.Fence)}
}

// Drop implements [store.Dropper]. A row is damaged if another program broke one of these rules. The fingerprint has 33
// bytes. The state is 1, 2 or 3. The fence is positive. The instants are finite or NULL.
func (s *records) Drop(ctx context.Context, id store.ID) error {
	if err := id.Validate(); err != nil {
		return err
	}
	var dropped int64
	err := s.run(ctx, true, func(on *pgx.Conn) error {
		tag, err := on.Exec(ctx, s.sql.drop, []byte(id.Scope), []byte(id.Key))
		dropped = tag.RowsAffected()
		return err
	})
	if err != nil || dropped > 0 {
		return err
	}
	if _, err := s.Find(ctx, id); err != nil {
		return err
	}
	return fmt.Errorf("pgstore: %w: the record of %v is not damaged", store.ErrInvalid, id)
}

// Purge implements [store.Store], in statements of at most 1,000 records. It skips records that another session has
// locked: any number of purges may run at a time, and share the work.
func (s *records) Purge(ctx context.Context, limit int) (int, error) {
	return sqltx.Purge(limit, func(batch int) (n int, err error) {
		err = s.run(ctx, true, func(on *pgx.Conn) error {
			tag, err := on.Exec(ctx, s.sql.purge, int64(batch))
			n = int(tag.RowsAffected())
			return err
		})
		return n, err
	})
}

// Find implements [store.Store]. An ID outside its limits is refused with store.ErrInvalid.
func (s *records) Find(ctx context.Context, id store.ID) (rec store.Record, err error) {
	if err := id.Validate(); err != nil {
		return store.Record{}, err
	}
	err = s.run(ctx, false, func(on *pgx.Conn) (err error) {
		rec, err = scanFound(id, on.QueryRow(ctx, s.sql.find, []byte(id.Scope), []byte(id.Key)))
		return err
	})
	return rec, err
}

// scanFound reads the row of the find statement.
func scanFound(id store.ID, found pgx.Row) (store.Record, error) {
	r := row{id: id}
	err := found.Scan(r.into()...)
	switch {
	case errors.Is(err, pgx.ErrNoRows), err == nil && r.expired():
		return store.Record{}, store.ErrNotFound
	case err != nil:
		return store.Record{}, err
	}
	return r.record()
}
