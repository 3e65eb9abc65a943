package pgoutbox_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/outboxtest"
	"github.com/redo-go/redo/outbox/pgoutbox"
)

func TestContract(t *testing.T) { contract(t, nil, beginPGX) }

func TestContractOverDatabaseSQL(t *testing.T) { contract(t, nil, beginSQL) }

// Behind a transaction pooler statements are sent as text.
func TestContractWithoutPreparedStatements(t *testing.T) {
	contract(t, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol }, beginPGX)
}

// A role or a database may have another default than read committed.
func TestContractAtStricterIsolation(t *testing.T) {
	contract(t, func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "repeatable read"
	}, beginPGX)
}

func contract(t *testing.T, change func(*pgxpool.Config), begin func(*testing.T, *pgoutbox.Queue, *pgxpool.Pool) outboxtest.Tx) {
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
func (x sqlTx) Commit(context.Context) error   { return x.tx.Commit() }
func (x sqlTx) Rollback(context.Context) error { return x.tx.Rollback() }

func keyed(id, key string) outbox.Event { return outbox.Event{ID: id, OrderingKey: key} }
