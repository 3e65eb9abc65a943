package pgstore_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/racetest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/store/pgstore/pgtest"
	"github.com/redo-go/redo/store/sqltx"
	"github.com/redo-go/redo/store/storetest"
)

func TestTxContract(t *testing.T) { txContract(t, "read committed", 0, place.open, byPgx) }

func TestTxContractAtStricterIsolationWithoutPreparedStatements(t *testing.T) {
	racetest.Repeats(t)
	txContract(t, "serializable", pgx.QueryExecModeExec, place.open, byPgx)
}

func TestTxContractOverSQL(t *testing.T) {
	txContract(t, "repeatable read", 0, place.openSQL, bySQL)
}

func TestTxContractOverSQLWithoutPreparedStatements(t *testing.T) {
	racetest.Repeats(t)
	txContract(t, "read committed", pgx.QueryExecModeSimpleProtocol, place.openSQL, bySQL)
}

// A user writes through a transaction, and calls the methods that must refuse.
type user[T any] struct {
	write            func(ctx context.Context, tx T, text string, args ...any) error
	commit, rollback func(ctx context.Context, tx T) error
}

var (
	byPgx = user[pgx.Tx]{pgxWrite,
		func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) },
		func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) }}
	bySQL = user[*sqltx.Tx]{sqlWrite,
		func(_ context.Context, tx *sqltx.Tx) error { return tx.Commit() },
		func(_ context.Context, tx *sqltx.Tx) error { return tx.Rollback() }}
)

// Each second handle is of the other kind. The two share one table.
func TestContractOverSQL(t *testing.T) {
	places := map[store.Store]place{}
	at := func(t *testing.T, p place) store.Store {
		st := p.openSQL(t)
		places[st] = p
		return st
	}
	next := reusing(t, func(tb testing.TB) place { return newPlace(tb).proxied(t) })
	storetest.Run(t, func(t *testing.T) store.Store { return at(t, next(t)) },
		storetest.Beside(func(t *testing.T, first store.Store) store.Store { return places[first].open(t) }),
		storetest.Reopen(func(t *testing.T, st store.Store) store.Store {
			require.NoError(t, st.(*pgstore.SQLStore).Close())
			return at(t, places[st])
		}), storetest.Damage(damaged(places)), injecting(places))
}

func pgxWrite(ctx context.Context, tx pgx.Tx, text string, args ...any) error {
	_, err := tx.Exec(ctx, text, args...)
	return err
}

func sqlWrite(ctx context.Context, tx *sqltx.Tx, text string, args ...any) error {
	_, err := tx.ExecContext(ctx, text, args...)
	return err
}

type txStore[T any] interface {
	store.TxStore[T]
	Close() error
}

// txContract runs the suite.
func txContract[T any, S txStore[T]](
	all *testing.T, level string, mode pgx.QueryExecMode, open func(p place, t testing.TB) S, by user[T],
) {
	places := map[store.Store]place{}
	at := func(t *testing.T, p place) store.TxStore[T] {
		st := open(p, t)
		p.pool = nil // another handle has its own
		places[st] = p
		return st
	}
	next := reusing(all, func(t testing.TB) place {
		p := newPlace(t).proxied(all)
		p.change = append(p.change, func(cfg *pgxpool.Config) {
			cfg.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
			if mode != 0 {
				cfg.ConnConfig.DefaultQueryExecMode = mode
			}
		})
		p.effects(t)
		return p
	})
	storetest.RunTx(all, storetest.TxHarness[T]{
		Open: func(t *testing.T) store.TxStore[T] { return at(t, next(t)) },
		Write: func(ctx context.Context, tx T, key string) error {
			return by.write(ctx, tx, "INSERT INTO effects VALUES ($1)", key)
		},
		Written: func(ctx context.Context, st store.TxStore[T], key string) (int, error) {
			return places[st].written(ctx, key)
		},
		Fail:     func(ctx context.Context, tx T) error { return by.write(ctx, tx, "SELECT 1/0") },
		Commit:   by.commit,
		Rollback: by.rollback,
		Ends: []func(context.Context, T) error{
			func(ctx context.Context, tx T) error { return by.write(ctx, tx, "COMMIT") },
			func(ctx context.Context, tx T) error { return by.write(ctx, tx, "ROLLBACK") },
		},
	}, storetest.Beside(func(t *testing.T, first store.Store) store.Store { return at(t, places[first]) }),
		storetest.Reopen(func(t *testing.T, st store.Store) store.Store {
			require.NoError(t, st.(S).Close())
			return at(t, places[st])
		}), injecting(places))
}

// effects makes a table for the tests' effects, and puts its schema on the search path.
func (p *place) effects(t testing.TB) {
	t.Helper()
	pgtest.Exec(t, pgtest.Connect(t, p.url), "CREATE TABLE "+p.effectsTable()+" (key text NOT NULL)")
	p.tables = append(p.tables, p.effectsTable())
	p.change = append(p.change, func(cfg *pgxpool.Config) {
		cfg.ConnConfig.RuntimeParams["search_path"] = pgx.Identifier{p.schema}.Sanitize()
	})
}

func (p place) effectsTable() string { return pgx.Identifier{p.schema, "effects"}.Sanitize() }

// written counts the committed effects.
func (p place) written(ctx context.Context, key string) (n int, err error) {
	conn, err := pgconn.Connect(ctx, p.url)
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	text := "SELECT FROM " + p.effectsTable() + " WHERE key = $1"
	result := conn.ExecParams(ctx, text, [][]byte{[]byte(key)}, nil, nil, nil).Read()
	return int(result.CommandTag.RowsAffected()), result.Err
}
