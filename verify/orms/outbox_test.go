package orms

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"testing"

	"entgo.io/ent/dialect"
	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"gorm.io/gorm"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/pgoutbox"
	"github.com/redo-go/redo/store/pgstore/pgtest"
)

// An event is in the queue if the transaction that a library began is committed, and not otherwise.
func TestAnEventIsCommittedWithTheTransactionOfALibrary(t *testing.T) {
	url := newDatabase(t)
	db := open(t, "pgx", url)
	e := engine{name: "postgres", db: db}.makeOrders(t, "BIGSERIAL PRIMARY KEY")
	queue, err := pgoutbox.New(pgtest.NewPool(t, url, 2))
	require.NoError(t, err)
	require.NoError(t, queue.Migrate(t.Context()))
	gormDB, bunDB, sqlxDB := openGorm(t, e), bun.NewDB(db, pgdialect.New()), sqlx.NewDb(db, "pgx")

	enqueue := func(ctx context.Context, tx pgoutbox.SQLTx, item string) error {
		_, err := queue.EnqueueSQL(ctx, tx, outbox.Event{ID: item, Destination: "https://shop.test/hooks"})
		return err
	}
	for name, transact := range map[string]func(ctx context.Context, item string, end error) error{
		"gorm": func(ctx context.Context, item string, end error) error {
			return gormDB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
				if err := tx.Create(&gormOrder{Item: item}).Error; err != nil {
					return err
				}
				return cmp.Or(enqueue(ctx, tx.Statement.ConnPool.(pgoutbox.SQLTx), item), end)
			})
		},
		"bun": func(ctx context.Context, item string, end error) error {
			return bunDB.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
				if _, err := tx.NewInsert().Model(&bunOrder{Item: item}).Exec(ctx); err != nil {
					return err
				}
				return cmp.Or(enqueue(ctx, tx.Tx, item), end)
			})
		},
		"ent": func(ctx context.Context, item string, end error) (err error) {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, finish(tx, err)) }()
			if err := insertByEnt(ctx, newEntDriver(dialect.Postgres, tx), item); err != nil {
				return err
			}
			return cmp.Or(enqueue(ctx, tx, item), end)
		},
		"sqlx": func(ctx context.Context, item string, end error) (err error) {
			tx, err := sqlxDB.BeginTxx(ctx, nil)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, finish(tx.Tx, err)) }()
			order := map[string]any{"item": item}
			if _, err := tx.NamedExecContext(ctx, "INSERT INTO orders (item) VALUES (:item)", order); err != nil {
				return err
			}
			return cmp.Or(enqueue(ctx, tx, item), end)
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, transact(t.Context(), "undone-by-"+name, errUndo), errUndo)
			require.NoError(t, transact(t.Context(), name, nil))
		})
	}
	require.Equal(t, []string{"bun", "ent", "gorm", "sqlx"}, e.items(t))
	events := map[string]bool{}
	for entry, err := range queue.Events(t.Context(), outbox.Selection{}) {
		require.NoError(t, err)
		events[entry.Event.ID] = true
	}
	require.Equal(t, map[string]bool{"bun": true, "ent": true, "gorm": true, "sqlx": true}, events)

	// bun writes arguments into the text in place of "?", and sends none.
	require.ErrorContains(t, bunDB.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
		return enqueue(ctx, tx, "no-arguments")
	}), "argument")
}

// finish commits a transaction, or rolls it back after an error.
func finish(tx *sql.Tx, err error) error {
	if err != nil {
		return tx.Rollback()
	}
	return tx.Commit()
}
