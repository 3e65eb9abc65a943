package pgoutbox_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox/pgoutbox"
	"github.com/redo-go/redo/store/pgstore/pgtest"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(childURL); url != "" {
		if err := runRelay(url, os.Getenv(childSchema)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(pgtest.Main(m))
}

// A place is a schema of the test's own, whose name needs quoting.
type place struct {
	url, schema string
	change      func(*pgxpool.Config)
}

func newPlace(t testing.TB) place {
	t.Helper()
	url := pgtest.URL(t)
	return place{url: url, schema: pgtest.NewSchema(t, url)}
}

// table returns the log's name, quoted.
func (p place) table() string { return p.named("") }

// named returns the name of another table, quoted.
func (p place) named(suffix string) string {
	return pgx.Identifier{p.schema, "redo_outbox" + suffix}.Sanitize()
}

// exec runs a statement.
func (p place) exec(t testing.TB, text string) {
	t.Helper()
	pgtest.Exec(t, pgtest.Connect(t, p.url), text)
}

func (p place) pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	var change []func(*pgxpool.Config)
	if p.change != nil {
		change = append(change, p.change)
	}
	return pgtest.NewPool(t, p.url, 8, change...)
}

// open returns a queue at the place and its pool, which is its own.
func (p place) open(t testing.TB, opts ...pgoutbox.Option) (*pgoutbox.Queue, *pgxpool.Pool) {
	t.Helper()
	pool := p.pool(t)
	q, err := pgoutbox.New(pool, append([]pgoutbox.Option{pgoutbox.WithSchema(p.schema)}, opts...)...)
	require.NoError(t, err)
	require.NoError(t, q.Migrate(context.Background()))
	return q, pool
}
