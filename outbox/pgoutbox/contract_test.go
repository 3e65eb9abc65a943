package pgoutbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/racetest"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/outboxtest"
	"github.com/redo-go/redo/outbox/pgoutbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/store/sqltx"
)

func TestContract(t *testing.T) { contract(t, nil, beginPGX) }

func TestContractOverDatabaseSQL(t *testing.T) { contract(t, nil, beginSQL) }

// Behind a transaction pooler statements are sent as text.
func TestContractWithoutPreparedStatements(t *testing.T) {
	racetest.Repeats(t)
	contract(
		t,
		func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol },
		beginPGX,
	)
}

// A role or a database may have another default than read committed.
func TestContractAtStricterIsolation(t *testing.T) {
	racetest.Repeats(t)
	contract(t, func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "repeatable read"
	}, beginPGX)
}

func contract(
	t *testing.T,
	change func(*pgxpool.Config),
	begin func(*testing.T, *pgoutbox.Queue, *pgxpool.Pool) outboxtest.Tx,
) {
	type backend struct {
		place place
		pool  *pgxpool.Pool
	}
	backends := map[outboxtest.Queue]backend{}
	at := func(t *testing.T, p place) outboxtest.Queue {
		q, pool := p.open(t)
		backends[q] = backend{p, pool}
		return q
	}
	outboxtest.Run(t, outboxtest.Harness{
		Open: func(t *testing.T) outboxtest.Queue {
			p := newPlace(t)
			p.change = change
			return at(t, p)
		},
		Beside: func(t *testing.T, first outboxtest.Queue) outboxtest.Queue { return at(t, backends[first].place) },
		Begin: func(t *testing.T, q outboxtest.Queue) outboxtest.Tx {
			return begin(t, q.(*pgoutbox.Queue), backends[q].pool)
		},
		Spoil: func(t *testing.T, q outboxtest.Queue, id, destination string) {
			_, err := backends[q].pool.Exec(t.Context(), fmt.Sprintf(
				"UPDATE %s SET header = '[1]' WHERE id = '%s' AND destination = '%s'", backends[q].place.table(), id,
				destination))
			require.NoError(t, err)
		},
	})
}

func beginPGX(t *testing.T, q *pgoutbox.Queue, pool *pgxpool.Pool) outboxtest.Tx {
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return pgxTx{tx, q}
}

type pgxTx struct {
	pgx.Tx
	q *pgoutbox.Queue
}

func (x pgxTx) EnqueueBatch(ctx context.Context, evs []outbox.Event) ([]string, error) {
	return x.q.EnqueueBatch(ctx, x.Tx, evs)
}

func (x pgxTx) Enqueue(ctx context.Context, ev outbox.Event) (string, error) {
	return x.q.Enqueue(ctx, x.Tx, ev)
}

func beginSQL(t *testing.T, q *pgoutbox.Queue, pool *pgxpool.Pool) outboxtest.Tx {
	db := stdlib.OpenDBFromPool(pool)
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(); _ = db.Close() })
	return sqlTx{tx, q}
}

type sqlTx struct {
	tx *sql.Tx
	q  *pgoutbox.Queue
}

func (x sqlTx) Enqueue(ctx context.Context, ev outbox.Event) (string, error) {
	return x.q.EnqueueSQL(ctx, x.tx, ev)
}

func (x sqlTx) EnqueueBatch(ctx context.Context, evs []outbox.Event) ([]string, error) {
	return x.q.EnqueueBatchSQL(ctx, x.tx, evs)
}

// The transaction that pgstore's store over database/sql hands out is accepted too.
func TestEnqueueInTheTransactionOfAStore(t *testing.T) {
	p := newPlace(t)
	q, pool := p.open(t)
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	st, err := pgstore.NewSQL(db, pgstore.WithSchema(p.schema))
	require.NoError(t, err)
	require.NoError(t, st.Migrate(t.Context()))
	enqueued := func(key string, fail error) {
		c := store.Claim{ID: store.ID{Key: key}, Retention: time.Hour}
		_, _, err := store.Once(t.Context(), st, c, func(ctx context.Context, tx *sqltx.Tx) (store.Outcome, error) {
			_, err := q.EnqueueSQL(ctx, tx, outbox.Event{ID: key})
			return store.Outcome{}, errors.Join(err, fail)
		})
		require.ErrorIs(t, err, fail)
	}
	enqueued("kept", nil)
	enqueued("undone", context.Canceled)
	stats, err := q.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, stats.Waiting)
	for _, tx := range []pgoutbox.SQLTx{nil, (*sql.Tx)(nil)} {
		_, err = q.EnqueueSQL(t.Context(), tx, outbox.Event{ID: "none"})
		require.ErrorIs(t, err, store.ErrInvalid)
	}
}

func (x sqlTx) Commit(context.Context) error   { return x.tx.Commit() }
func (x sqlTx) Rollback(context.Context) error { return x.tx.Rollback() }

func keyed(id, key string) outbox.Event { return outbox.Event{ID: id, OrderingKey: key} }
