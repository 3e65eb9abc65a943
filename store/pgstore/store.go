package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redo-go/redo/store"
)

// Interfaces that a Store implements.
var (
	_ store.TxStore[pgx.Tx] = (*Store)(nil)
	_ store.Waiter          = (*Store)(nil)
	_ store.Checker         = (*Store)(nil)
	_ store.Lister          = (*Store)(nil)
	_ store.Forgetter       = (*Store)(nil)
	_ store.Dropper         = (*Store)(nil)
)

// A Store keeps records in one table. Create one with Open or New. All methods may be called concurrently, and any
// number of Stores, in any number of processes, may use one table.
//
// A method takes one connection of the pool for one statement. How many run at a time is the pool's size
// (pool_max_conns in a connection string; four, or the number of processors, where it says nothing); the others
// wait for their turn until their context ends.
type Store struct{ *records }

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
	return &Store{newRecords(newPgxPool(pool, cfg.mode), cfg)}, nil
}

// Begin implements [store.TxStore]. The pgx.Tx is the caller's to use but not to end: its Commit and Rollback do nothing and
// return an error, and after its Rollback, a deferred one too, Commit is refused with [store.ErrTxEnded] and undoes the work.
// Its Begin sets savepoints, as with any pgx.Tx. The connection is taken from the pool until the transaction is over. One that
// was ended behind the store's back, by a COMMIT or ROLLBACK sent as a statement, is store.ErrTxEnded, and its session is
// closed. Only a Rollback does not find out that a user has sent COMMIT and then BEGIN: the record is left to be taken over.
func (s *Store) Begin(ctx context.Context, c store.Claim) (store.Tx[pgx.Tx], store.Grant, error) {
	return open(ctx, s.records, c, shownPgx)
}
