package pgoutbox_test

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox/pgoutbox"
)

// shared is the server that the tests use: the environment's, or a private one for the whole run.
var shared struct {
	url string
	err error
}

func TestMain(m *testing.M) {
	if url := os.Getenv(childURL); url != "" {
		if err := runRelay(url, os.Getenv(childSchema)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(withServer(m.Run))
}

func withServer(run func() int) int {
	if shared.url = os.Getenv("REDO_TEST_POSTGRES"); shared.url != "" {
		return run()
	}
	dir, err := newDir()
	if err != nil {
		shared.err = err
		return run()
	}
	defer os.RemoveAll(dir)
	s, err := newServer(dir)
	if shared.err = err; err != nil {
		return run()
	}
	defer s.stop()
	shared.url = s.url
	return run()
}

// serverURL is the shared server's; the test is skipped, or fails, where there is none.
func serverURL(t testing.TB) string {
	t.Helper()
	if shared.err != nil {
		skip(t, shared.err)
	}
	return shared.url
}

var schemas atomic.Int64

// A place is a schema of the test's own, whose name needs quoting.
type place struct {
	url, schema string
	change      func(*pgxpool.Config)
}

func newPlace(t testing.TB) place {
	t.Helper()
	p := place{url: serverURL(t), schema: fmt.Sprintf(`redo "outbox" 'o\%d-%d`, os.Getpid(), schemas.Add(1))}
	quoted := pgx.Identifier{p.schema}.Sanitize()
	p.exec(t, "CREATE SCHEMA "+quoted)
	t.Cleanup(func() { p.exec(t, "DROP SCHEMA "+quoted+" CASCADE") })
	return p
}

// exec makes a statement beside the queue.
func (p place) exec(t testing.TB, text string) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), p.url)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(context.Background(), text)
	require.NoError(t, err, text)
}

func (p place) pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(p.url)
	require.NoError(t, err)
	cfg.MaxConns = 8
	if p.change != nil {
		p.change(cfg)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
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
