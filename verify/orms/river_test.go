package orms

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/store/pgstore/pgtest"
)

type receipt struct {
	Order string `json:"order"`
}

func (receipt) Kind() string { return "receipt" }

// A job of River is in the queue if its request's record is, and not otherwise.
func TestAJobOfRiverIsCommittedWithItsRecord(t *testing.T) {
	pool := pgtest.NewPool(t, newDatabase(t), 4)
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	require.NoError(t, err)
	_, err = migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil)
	require.NoError(t, err)
	jobs, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
	require.NoError(t, err)
	st, err := pgstore.New(pool)
	require.NoError(t, err)
	require.NoError(t, st.Migrate(t.Context()))
	do := newServer(t, st, "river")
	queued := func() (n int) {
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT COUNT(*) FROM river_job").Scan(&n))
		return n
	}
	insert := func(status int) func(context.Context, pgx.Tx) (int, error) {
		return func(ctx context.Context, tx pgx.Tx) (int, error) {
			_, err := jobs.InsertTx(ctx, tx, receipt{"bread"}, nil)
			return status, err
		}
	}
	require.Equal(t, 500, do("bread", insert(500)).Code)
	require.Zero(t, queued())
	require.Equal(t, 201, do("bread", insert(201)).Code)
	require.Equal(t, "replayed", do("bread", insert(201)).Header().Get("Idempotency-Status"))
	require.Equal(t, 1, queued())
	require.Equal(t, 422, do("salt", insert(422)).Code)
	require.Equal(t, 1, queued())
	partly := do("part", func(ctx context.Context, tx pgx.Tx) (int, error) {
		err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			_, err := insert(201)(ctx, tx)
			return errors.Join(err, errUndo)
		})
		if !errors.Is(err, errUndo) {
			return 500, err
		}
		return insert(201)(ctx, tx)
	})
	require.Equal(t, 201, partly.Code, partly.Body)
	require.Equal(t, 2, queued())
}
