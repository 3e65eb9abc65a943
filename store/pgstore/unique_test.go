package pgstore_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/taxonomy"
)

type order struct {
	ID     int64
	Amount int
}

// orders inserts into a table whose rows carry their keys.
type orders struct{ table string }

func newOrders(t *testing.T) (orders, place) {
	p := newPlace(t)
	o := orders{pgx.Identifier{p.schema, "orders"}.Sanitize()}
	sqlExec(t, admin(t, p.url), "CREATE TABLE "+o.table+` (id bigserial PRIMARY KEY, number int CONSTRAINT number_is_free UNIQUE,
		key text NOT NULL CONSTRAINT key_is_new UNIQUE, amount int NOT NULL)`)
	return o, p
}

func (o orders) keyed(key string, number, amount int) pgstore.KeyedRow[order] {
	one := func(rows pgx.Rows, err error) (order, error) {
		if err != nil {
			return order{}, err
		}
		return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[order])
	}
	return pgstore.KeyedRow[order]{
		Constraint: "key_is_new",
		Insert: func(ctx context.Context, tx pgx.Tx) (order, error) {
			return one(tx.Query(ctx, "INSERT INTO "+o.table+" (key, number, amount) VALUES ($1, $2, $3) RETURNING id, amount", key, number, amount))
		},
		Find: func(ctx context.Context, tx pgx.Tx) (order, error) {
			return one(tx.Query(ctx, "SELECT id, amount FROM "+o.table+" WHERE key = $1", key))
		},
		Same: func(found order) bool { return found.Amount == amount },
	}
}

func TestKeyedRowIsInsertedOnceAndThenFound(t *testing.T) {
	o, p := newOrders(t)
	pool := newPool(t, p.url, 2)
	conn := admin(t, p.url)
	tx, err := admin(t, p.url).Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	st := p.open(t)
	held, _ := begin(t, st, claim("k"), store.Acquired)
	first, inserted, err := pgstore.InsertKeyed(t.Context(), pool, o.keyed("k", 1, 100))
	require.NoError(t, err)
	require.True(t, inserted)
	for name, db := range map[string]pgstore.Beginner{"pool": pool, "connection": conn, "transaction": tx, "transaction of a store": held.Tx()} {
		found, inserted, err := pgstore.InsertKeyed(t.Context(), db, o.keyed("k", 2, 100))
		require.NoError(t, err, name)
		require.False(t, inserted, name)
		require.Equal(t, first, found, name)

		found, inserted, err = pgstore.InsertKeyed(t.Context(), db, o.keyed("k", 2, 200))
		require.ErrorIs(t, err, taxonomy.PayloadMismatch, name)
		require.False(t, inserted, name)
		require.Equal(t, first, found, name)

		_, inserted, err = pgstore.InsertKeyed(t.Context(), db, o.keyed("another", 1, 100))
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg, name)
		require.Equal(t, "number_is_free", pg.ConstraintName, name)
		require.False(t, inserted, name)
	}
	// After violations a transaction is good for more.
	_, inserted, err = pgstore.InsertKeyed(t.Context(), tx, o.keyed("new", 3, 100))
	require.NoError(t, err)
	require.True(t, inserted)
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, held.Commit(t.Context(), store.Outcome{}))
}

func TestOneOf64KeyedInsertsInserts(t *testing.T) {
	o, p := newOrders(t)
	pool := newPool(t, p.url, 16)
	ids := make([]int64, racers)
	inserts := make([]bool, racers)
	require.NoError(t, race(func(i int) error {
		row, inserted, err := pgstore.InsertKeyed(t.Context(), pool, o.keyed("k", i, 100))
		ids[i], inserts[i] = row.ID, inserted
		return err
	}))
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
	o, p := newOrders(t)
	pool := newPool(t, p.url, 2)
	_, _, err := pgstore.InsertKeyed(t.Context(), pool, o.keyed("k", 1, 100))
	require.NoError(t, err)
	k := o.keyed("k", 2, 100)
	look, looks := k.Find, 0
	k.Find = func(ctx context.Context, tx pgx.Tx) (order, error) {
		if looks++; looks == 1 {
			sqlExec(t, admin(t, p.url), "DELETE FROM "+o.table)
		}
		return look(ctx, tx)
	}
	_, inserted, err := pgstore.InsertKeyed(t.Context(), pool, k)
	require.NoError(t, err)
	require.True(t, inserted)
	require.Equal(t, 1, looks)

	// A transaction that can't see the row says so, and does not try for ever.
	tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	require.NoError(t, pgxWrite(t.Context(), tx, "SELECT 1"))
	_, _, err = pgstore.InsertKeyed(t.Context(), pool, o.keyed("late", 3, 100))
	require.NoError(t, err)
	_, _, err = pgstore.InsertKeyed(t.Context(), tx, o.keyed("late", 4, 100))
	require.ErrorIs(t, err, store.ErrUnavailable)
}

func TestKeyedRowIsValidated(t *testing.T) {
	whole := orders{}.keyed("k", 1, 1)
	for name, spoil := range map[string]func(*pgstore.KeyedRow[order]){
		"no constraint": func(k *pgstore.KeyedRow[order]) { k.Constraint = "" },
		"no insert":     func(k *pgstore.KeyedRow[order]) { k.Insert = nil },
		"no look":       func(k *pgstore.KeyedRow[order]) { k.Find = nil },
		"no comparison": func(k *pgstore.KeyedRow[order]) { k.Same = nil },
	} {
		k := whole
		spoil(&k)
		_, _, err := pgstore.InsertKeyed(t.Context(), (*pgx.Conn)(nil), k)
		require.ErrorIs(t, err, store.ErrInvalid, name)
	}
	_, _, err := pgstore.InsertKeyed(t.Context(), nil, whole)
	require.ErrorIs(t, err, store.ErrInvalid, "no database")
}
