package pgtest

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// shared is the server of the environment, or a private one for the whole run.
var shared struct {
	url string
	err error
}

// Main runs the tests of a package with a shared server, and returns the exit code: call it from TestMain. The server
// is that of REDO_TEST_POSTGRES, or a private one.
func Main(m *testing.M) int {
	if shared.url = os.Getenv("REDO_TEST_POSTGRES"); shared.url != "" {
		return m.Run()
	}
	dir, err := newDir()
	if err != nil {
		shared.err = err
		return m.Run()
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s, err := newServer(dir)
	if shared.err = err; err != nil {
		return m.Run()
	}
	defer func() { _ = s.Stop() }()
	shared.url = s.URL
	return m.Run()
}

// URL returns the connection string of the shared server. It skips the test if there is none.
func URL(t testing.TB) string {
	t.Helper()
	if shared.err != nil {
		Skip(t, shared.err)
	}
	return shared.url
}

// NewPool returns a pool of at most n connections, whose configuration was changed by the functions. It is closed when
// the test ends.
func NewPool(t testing.TB, url string, n int32, change ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	must(t, err)
	cfg.MaxConns = n
	for _, f := range change {
		f(cfg)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	must(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// Connect returns a connection that is closed when the test ends.
func Connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// Exec runs a statement, and fails the test if the statement fails.
func Exec(t testing.TB, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

var schemas atomic.Int64

// NewSchema makes a schema whose name needs quotes. It is dropped when the test ends.
func NewSchema(t testing.TB, url string) string {
	t.Helper()
	name := fmt.Sprintf(`redo "test" 'o\%d-%d`, os.Getpid(), schemas.Add(1))
	quoted := pgx.Identifier{name}.Sanitize()
	Exec(t, Connect(t, url), "CREATE SCHEMA "+quoted)
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), url)
		must(t, err)
		defer func() { _ = conn.Close(context.Background()) }()
		Exec(t, conn, "DROP SCHEMA "+quoted+" CASCADE")
	})
	return name
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
