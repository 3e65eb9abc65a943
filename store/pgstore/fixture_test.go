package pgstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore"
)

// shared is the server that most tests use: the environment's, or a private one for the whole run.
var shared struct {
	url string
	err error
}

func TestMain(m *testing.M) { os.Exit(withServer(m.Run)) }

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

// newPool is a pool on the shared server of at most n connections, changed by the functions.
func newPool(t testing.TB, url string, n int32, change ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	cfg.MaxConns = n
	for _, f := range change {
		f(cfg)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// admin is a connection for what the store itself doesn't do.
func admin(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func sqlExec(t testing.TB, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	_, err := conn.Exec(context.Background(), sql, args...)
	require.NoError(t, err, sql)
}

var schemas atomic.Int64

// newSchema makes a schema for the test alone, whose name needs quoting.
func newSchema(t testing.TB, url string) string {
	t.Helper()
	name := fmt.Sprintf(`redo "test" 'o\%d-%d`, os.Getpid(), schemas.Add(1))
	quoted := pgx.Identifier{name}.Sanitize()
	sqlExec(t, admin(t, url), "CREATE SCHEMA "+quoted)
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), url)
		require.NoError(t, err)
		defer conn.Close(context.Background())
		sqlExec(t, conn, "DROP SCHEMA "+quoted+" CASCADE")
	})
	return name
}

// A place is where a store has its table, and how its pool is made.
type place struct {
	url, schema string
	conns       int32
	change      []func(*pgxpool.Config)
	opts        []pgstore.Option
}

func newPlace(t testing.TB) place {
	url := serverURL(t)
	return place{url: url, schema: newSchema(t, url), conns: 8}
}

// open returns a store at the place, with a pool of its own.
func (p place) open(t testing.TB) *pgstore.Store {
	t.Helper()
	opts := append([]pgstore.Option{pgstore.WithSchema(p.schema)}, p.opts...)
	st, err := pgstore.New(newPool(t, p.url, p.conns, p.change...), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	require.NoError(t, st.Migrate(context.Background()))
	return st
}

// table is the place's default table, quoted.
func (p place) table() string { return pgx.Identifier{p.schema, "redo_records"}.Sanitize() }

const long = time.Hour // for what must not run out

func claim(key string) store.Claim {
	return store.Claim{
		ID:          store.ID{Scope: "scope", Key: key},
		Fingerprint: store.Raw("POST", "/refunds", "", []byte("body")),
		Lease:       long,
		Retention:   24 * time.Hour,
		Meta:        []byte("meta"),
	}
}

func unleased(key string) store.Claim {
	c := claim(key)
	c.Lease = 0
	return c
}

func reserve(t testing.TB, st store.Store, c store.Claim, want store.Verdict) store.Grant {
	t.Helper()
	g, err := st.Reserve(context.Background(), c)
	require.NoError(t, err)
	require.Equal(t, want, g.Verdict)
	return g
}

func find(t testing.TB, st store.Store, key string) store.Record {
	t.Helper()
	r, err := st.Find(context.Background(), claim(key).ID)
	require.NoError(t, err)
	return r
}

// until polls until the condition holds, and fails the test when it does not within a time that only a broken rule
// takes.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, 30*time.Second, 2*time.Millisecond, what)
}

func init() {
	pgstore.TestServer = func(t testing.TB) (url, schema string) {
		url = serverURL(t)
		return url, newSchema(t, url)
	}
}

// db is a database/sql pool at the place, of p.conns connections.
func (p place) db(t testing.TB) *sql.DB {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(p.url)
	require.NoError(t, err)
	for _, f := range p.change {
		f(cfg)
	}
	db := stdlib.OpenDB(*cfg.ConnConfig)
	db.SetMaxOpenConns(int(p.conns))
	db.SetMaxIdleConns(int(p.conns))
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}
