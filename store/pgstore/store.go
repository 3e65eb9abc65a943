package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore/pgtable"
	"github.com/redo-go/redo/store/sqltx"
)

var (
	_ store.Engine             = (*Store)(nil)
	_ store.TxStore[pgx.Tx]    = (*Store)(nil)
	_ store.TxStore[*sqltx.Tx] = (*SQLStore)(nil)
)

// A Store keeps records in one table. Create one with Open or New. All methods may be called concurrently, and any
// number of Stores, in any number of processes, may use one table.
//
// A method takes one connection of the pool for one statement. Other calls wait for a connection until their context
// ends. The pool's size is pool_max_conns in a connection string; the default is four, or the number of processors if
// that is larger.
type Store struct {
	*records
	pool *pgxpool.Pool
}

// Open connects to the database that connString names, a URL or key=value pairs as pgxpool.ParseConfig reads them, and
// checks the table as [Store.Check] does. Close closes the connections. No error contains the password.
func Open(ctx context.Context, connString string, opts ...Option) (*Store, error) {
	cfg, err := pgxpool.ParseConfig(connString)
	if err != nil {
		return nil, fmt.Errorf("pgstore: %w: %w", store.ErrInvalid, err)
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
	s.shut = pool.Close
	ready := s.Check
	if s.migrate {
		ready = s.Migrate
	}
	if err := ready(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// New returns a Store over a pool, which the caller closes. It does not connect. Call Check before the first request is
// served. Statements are sent in the pool's execution mode.
func New(pool *pgxpool.Pool, opts ...Option) (*Store, error) {
	if pool == nil {
		return nil, fmt.Errorf("pgstore: %w: the pool is nil", store.ErrInvalid)
	}
	r, err := newRecords(pgtable.Pool(pool), opts)
	if err != nil {
		return nil, err
	}
	return &Store{r, pool}, nil
}

// Begin implements [store.TxStore]. It takes a connection of the pool until the transaction ends. Commit and Rollback
// of the pgx.Tx refuse, see [store.ErrTxEnded]. Its Begin sets a savepoint, as with any pgx.Tx. If the transaction was
// ended by the text of a statement, its session is closed.
func (s *Store) Begin(ctx context.Context, c store.Claim) (store.Tx[pgx.Tx], store.Grant, error) {
	return begin(ctx, s.records, c, func() (connection[pgx.Tx], error) { return acquirePgx(ctx, s.pool) })
}

// An SQLStore is a [Store] for programs that use database/sql. Both may use one table at the same time, and exclude
// each other. The driver must be pgx's, github.com/jackc/pgx/v5/stdlib, directly or wrapped by a driver whose
// connections have a method Raw() driver.Conn or WrappedConn() driver.Conn. Create one with NewSQL. All methods may be
// called concurrently.
type SQLStore struct {
	*records
	db *sql.DB
}

// NewSQL returns an SQLStore over db, which the caller closes. It does not connect. Call Check before the first request
// is served.
func NewSQL(db *sql.DB, opts ...Option) (*SQLStore, error) {
	if db == nil {
		return nil, fmt.Errorf("pgstore: %w: the database is nil", store.ErrInvalid)
	}
	r, err := newRecords(sqlConns(db), opts)
	if err != nil {
		return nil, err
	}
	return &SQLStore{r, db}, nil
}

// Begin implements [store.TxStore]. It takes a connection of the pool until the transaction ends. Commit and Rollback
// of the *sqltx.Tx refuse, see [store.ErrTxEnded]. If the transaction was ended by the text of a statement, its session
// is closed.
func (s *SQLStore) Begin(ctx context.Context, c store.Claim) (store.Tx[*sqltx.Tx], store.Grant, error) {
	return begin(ctx, s.records, c, func() (connection[*sqltx.Tx], error) { return acquireSQL(ctx, s.db) })
}
