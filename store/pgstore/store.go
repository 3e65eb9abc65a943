package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redo-go/redo/store"
)

// Interfaces that a Store implements.
var (
	_ store.Store     = (*Store)(nil)
	_ store.Waiter    = (*Store)(nil)
	_ store.Checker   = (*Store)(nil)
	_ store.Lister    = (*Store)(nil)
	_ store.Forgetter = (*Store)(nil)
)

// MaxResult is the longest result that Complete accepts, in bytes; a longer one is store.ErrInvalid. Postgres ends at
// 1 GiB for a row and for a message, in which a result may stand twice as long.
const MaxResult = 256 << 20

// A Store keeps records in one table. Create one with Open or New. All methods may be called concurrently, and any
// number of Stores, in any number of processes, may use one table.
//
// A method takes one connection of the pool for one statement. How many run at a time is the pool's size
// (pool_max_conns in a connection string; four, or the number of processors, where it says nothing); the others
// wait for their turn until their context ends.
type Store struct {
	config
	pool *pgxpool.Pool
	owns bool // the pool is closed with the store
	sql  statements

	life  context.Context // ends with Close
	end   context.CancelFunc
	polls polls
}

// Open connects to the database that connString names, a URL or key=value pairs as pgxpool.ParseConfig reads
// them, and checks the table as [Store.Check] does. Close closes the connections. No error shows the password.
func Open(ctx context.Context, connString string, opts ...Option) (*Store, error) {
	cfg, err := pgxpool.ParseConfig(connString)
	if err != nil {
		return nil, fmt.Errorf("pgstore: %w: %w", store.ErrInvalid, err)
	}
	if _, err := newConfig(opts); err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("pgstore: %w: %w", store.ErrUnavailable, err)
	}
	s, err := New(pool, opts...)
	if err != nil {
		pool.Close()
		return nil, err
	}
	s.owns = true
	ready := s.Check
	if s.migrate {
		ready = s.Migrate
	}
	if err := ready(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// New returns a Store over a pool, which stays the caller's to close. It connects to nothing; call Check before
// the first request is served.
func New(pool *pgxpool.Pool, opts ...Option) (*Store, error) {
	if pool == nil {
		return nil, fmt.Errorf("pgstore: %w: the pool is nil", store.ErrInvalid)
	}
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	s := &Store{config: cfg, pool: pool, sql: newStatements(cfg.schema, cfg.table)}
	s.life, s.end = context.WithCancel(context.Background())
	return s, nil
}

// Close ends every Wait and, if the Store came from Open, waits for the calls that are running and closes the
// connections. Afterwards all methods return an error that wraps store.ErrUnavailable; closing again does
// nothing. It always returns nil.
func (s *Store) Close() error {
	s.end()
	s.polls.wait()
	if s.owns {
		s.pool.Close()
	}
	return nil
}

// name is the table's, for messages.
func (s *Store) name() string { return pgx.Identifier{s.schema, s.table}.Sanitize() }

// Reserve implements [store.Store], in one statement unless it loses a race.
func (s *Store) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	if err := c.Validate(); err != nil {
		return store.Grant{}, err
	}
	var g store.Grant
	err := s.run(ctx, true, func(on session) error {
		var err error
		g, err = s.sql.reserveOn(ctx, on, c)
		return err
	})
	if err != nil {
		return store.Grant{}, err
	}
	return g, nil
}

// Extend implements [store.Store]. A negative d and store.Forever are refused with store.ErrInvalid.
func (s *Store) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	// The rules for a claim's lease and meta are the rules here.
	if err := (store.Claim{ID: l.ID, Lease: d, Retention: store.Forever, Meta: meta}).Validate(); err != nil {
		return err
	}
	return s.run(ctx, true, func(on session) error { return s.sql.extendOn(ctx, on, l, d, meta) })
}

// Complete implements [store.Store]. A result longer than [MaxResult] is refused with store.ErrInvalid.
func (s *Store) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	if err := o.Validate(); err != nil {
		return err
	}
	if len(o.Result) > MaxResult {
		return fmt.Errorf("pgstore: %w: the result has %d bytes, at most %d are allowed", store.ErrInvalid, len(o.Result), MaxResult)
	}
	text := s.sql.complete
	if o.Lazy {
		text = s.sql.completeLazy
	}
	return s.run(ctx, true, func(on session) error { return completeOn(ctx, on, text, l, o) })
}

// Release implements [store.Store].
func (s *Store) Release(ctx context.Context, l store.Lease) error {
	return s.run(ctx, true, func(on session) error { return changeOn(ctx, on, s.sql.release, l) })
}

// Forget implements [store.Forgetter].
func (s *Store) Forget(ctx context.Context, l store.Lease) error {
	return s.run(ctx, true, func(on session) error { return changeOn(ctx, on, s.sql.forget, l) })
}

// Find implements [store.Store]. An ID outside its limits is refused with store.ErrInvalid.
func (s *Store) Find(ctx context.Context, id store.ID) (store.Record, error) {
	if err := id.Validate(); err != nil {
		return store.Record{}, err
	}
	var r store.Record
	err := s.run(ctx, false, func(on session) error {
		var err error
		r, err = s.sql.findOn(ctx, on, id)
		return err
	})
	if err != nil {
		return store.Record{}, err
	}
	return r, nil
}
