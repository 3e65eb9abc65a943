package keyed

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore/pgtest"
	"github.com/redo-go/redo/taxonomy"
)

const racers = 64

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

type order struct {
	ID     int64
	Amount int
}

// orders inserts into a table whose rows carry their keys.
type orders struct{ table string }

func newOrders(t *testing.T) (orders, string) {
	url := pgtest.URL(t)
	o := orders{pgx.Identifier{pgtest.NewSchema(t, url), "orders"}.Sanitize()}
	pgtest.Exec(
		t,
		pgtest.Connect(t, url),
		"CREATE TABLE "+o.table+` (id bigserial PRIMARY KEY, number int CONSTRAINT number_is_free UNIQUE,
		key text NOT NULL CONSTRAINT key_is_new UNIQUE, amount int NOT NULL)`,
	)
	return o, url
}

func (o orders) keyed(key string, number, amount int) Row[order] {
	one := func(rows pgx.Rows, err error) (order, error) {
		if err != nil {
			return order{}, err
		}
		return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[order])
	}
	return Row[order]{
		Constraint: "key_is_new",
		Insert: func(ctx context.Context, tx pgx.Tx) (order, error) {
			return one(
				tx.Query(
					ctx,
					"INSERT INTO "+o.table+" (key, number, amount) VALUES ($1, $2, $3) RETURNING id, amount",
					key,
					number,
					amount,
				),
			)
		},
		Find: func(ctx context.Context, tx pgx.Tx) (order, error) {
			return one(tx.Query(ctx, "SELECT id, amount FROM "+o.table+" WHERE key = $1", key))
		},
		Same: func(found order) bool { return found.Amount == amount },
	}
}

func TestKeyedRowIsInsertedOnceAndThenFound(t *testing.T) {
	o, url := newOrders(t)
	pool := pgtest.NewPool(t, url, 2)
	conn := pgtest.Connect(t, url)
	tx, err := pgtest.Connect(t, url).Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	first, inserted, err := Insert(t.Context(), pool, o.keyed("k", 1, 100))
	require.NoError(t, err)
	require.True(t, inserted)
	for name, db := range map[string]Beginner{"pool": pool, "connection": conn, "transaction": tx} {
		found, inserted, err := Insert(t.Context(), db, o.keyed("k", 2, 100))
		require.NoError(t, err, name)
		require.False(t, inserted, name)
		require.Equal(t, first, found, name)

		found, inserted, err = Insert(t.Context(), db, o.keyed("k", 2, 200))
		require.ErrorIs(t, err, taxonomy.PayloadMismatch, name)
		require.False(t, inserted, name)
		require.Equal(t, first, found, name)

		_, inserted, err = Insert(t.Context(), db, o.keyed("another", 1, 100))
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg, name)
		require.Equal(t, "number_is_free", pg.ConstraintName, name)
		require.False(t, inserted, name)
	}
	// A transaction can go on after violations.
	_, inserted, err = Insert(t.Context(), tx, o.keyed("new", 3, 100))
	require.NoError(t, err)
	require.True(t, inserted)
	require.NoError(t, tx.Commit(t.Context()))
}

func TestOneOf64KeyedInsertsInserts(t *testing.T) {
	o, url := newOrders(t)
	pool := pgtest.NewPool(t, url, 16)
	ids := make([]int64, racers)
	inserts := make([]bool, racers)
	errs := make([]error, racers)
	var all sync.WaitGroup
	for i := range racers {
		all.Go(func() {
			var row order
			row, inserts[i], errs[i] = Insert(t.Context(), pool, o.keyed("k", i, 100))
			ids[i] = row.ID
		})
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
	n := 0
	for i := range ids {
		require.Equal(t, ids[0], ids[i])
		if inserts[i] {
			n++
		}
	}
	require.Equal(t, 1, n)
}

func TestKeyedRowThatVanishesIsInsertedAnew(t *testing.T) {
	o, url := newOrders(t)
	pool := pgtest.NewPool(t, url, 2)
	_, _, err := Insert(t.Context(), pool, o.keyed("k", 1, 100))
	require.NoError(t, err)
	k := o.keyed("k", 2, 100)
	find, finds := k.Find, 0
	k.Find = func(ctx context.Context, tx pgx.Tx) (order, error) {
		if finds++; finds == 1 {
			pgtest.Exec(t, pgtest.Connect(t, url), "DELETE FROM "+o.table)
		}
		return find(ctx, tx)
	}
	_, inserted, err := Insert(t.Context(), pool, k)
	require.NoError(t, err)
	require.True(t, inserted)
	require.Equal(t, 1, finds)

	// Insert gives up in a transaction that can't see the row.
	tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	_, err = tx.Exec(t.Context(), "SELECT 1")
	require.NoError(t, err)
	_, _, err = Insert(t.Context(), pool, o.keyed("late", 3, 100))
	require.NoError(t, err)
	_, _, err = Insert(t.Context(), tx, o.keyed("late", 4, 100))
	require.ErrorIs(t, err, store.ErrUnavailable)
}

func TestKeyedRowIsValidated(t *testing.T) {
	whole := orders{}.keyed("k", 1, 1)
	for name, spoil := range map[string]func(*Row[order]){
		"no constraint": func(k *Row[order]) { k.Constraint = "" },
		"no insert":     func(k *Row[order]) { k.Insert = nil },
		"no find":       func(k *Row[order]) { k.Find = nil },
		"no comparison": func(k *Row[order]) { k.Same = nil },
	} {
		k := whole
		spoil(&k)
		_, _, err := Insert(t.Context(), (*pgx.Conn)(nil), k)
		require.ErrorIs(t, err, store.ErrInvalid, name)
	}
	_, _, err := Insert(t.Context(), nil, whole)
	require.ErrorIs(t, err, store.ErrInvalid, "no database")
}
