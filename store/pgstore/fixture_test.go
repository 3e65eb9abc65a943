package pgstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/store/pgstore/pgtest"
	"github.com/redo-go/redo/store/storetest"
)

func TestMain(m *testing.M) {
	if os.Getenv(serviceURL) != "" {
		fmt.Fprintln(os.Stderr, servePayments())
		os.Exit(1)
	}
	os.Exit(pgtest.Main(m))
}

// A place is the schema of a store, and the configuration of its pool.
type place struct {
	url, schema string
	tables      []string // quoted
	conns       int32
	pool        *pgxpool.Pool // of open; nil: a new one
	reused      *pgxpool.Pool // the pool that reusing has made
	change      []func(*pgxpool.Config)
	proxy       *storetest.Proxy // of the connections
	opts        []pgstore.Option
}

func newPlace(t testing.TB) place {
	url := pgtest.URL(t)
	p := place{url: url, schema: pgtest.NewSchema(t, url), conns: 8}
	p.tables = []string{p.table()}
	return p
}

// reusing returns a function like create. It gives the place of a test that has ended to the next one, emptied. To make
// tables and connections takes longer than most tests of a suite.
func reusing(all *testing.T, create func(t testing.TB) place) func(t testing.TB) place {
	conn := pgtest.Connect(all, pgtest.URL(all))
	var free []place
	return func(t testing.TB) place {
		var p place
		if last := len(free) - 1; last >= 0 {
			p, free = free[last], free[:last]
		} else {
			p = create(all)
			p.pool = pgtest.NewPool(all, p.url, p.conns, append(p.change, func(cfg *pgxpool.Config) {
				cfg.ConnConfig.RuntimeParams["application_name"] = p.schema
			})...)
			p.reused = p.pool
		}
		t.Cleanup(func() {
			// A Begin that was refused may still be rolling back, and would hold its ID in the next test. Postgres gives
			// up the locks of its tables before those of IDs.
			for _, table := range p.tables {
				pgtest.Exec(t, conn, "BEGIN; LOCK TABLE "+table+"; DELETE FROM "+table+"; COMMIT")
			}
			require.Eventually(t, func() bool {
				var held int
				err := conn.QueryRow(context.Background(), "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) "+
					"WHERE locktype = 'advisory' AND application_name = $1", p.schema).Scan(&held)
				return err == nil && held == 0
			}, 10*time.Second, time.Millisecond)
			free = append(free, p)
		})
		return p
	}
}

// proxied makes stores at the place connect through a proxy, unless the server is at a socket.
func (p place) proxied(t *testing.T) place {
	t.Helper()
	cfg, err := pgx.ParseConfig(p.url)
	require.NoError(t, err)
	if strings.HasPrefix(cfg.Host, "/") {
		return p
	}
	p.proxy = storetest.NewProxy(t, net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port))))
	p.change = append(p.change, func(cfg *pgxpool.Config) {
		cfg.ConnConfig.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", p.proxy.Addr())
		}
	})
	return p
}

// inject makes a store at the place fail.
func (p place) inject(t *testing.T, st store.Store, f storetest.Fault) func() {
	t.Helper()
	switch {
	case f == storetest.Closed:
		require.NoError(t, st.(io.Closer).Close())
		return func() {}
	case p.proxy == nil:
		return nil
	case p.reused != nil:
		t.Cleanup(p.reused.Reset) // the next test needs sound connections
	}
	return p.proxy.Inject(f)
}

// open returns a store at the place.
func (p place) open(t testing.TB) *pgstore.Store {
	t.Helper()
	opts := append([]pgstore.Option{pgstore.WithSchema(p.schema)}, p.opts...)
	if p.pool == nil {
		p.pool = pgtest.NewPool(t, p.url, p.conns, p.change...)
	}
	st, err := pgstore.New(p.pool, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	require.NoError(t, st.Migrate(context.Background()))
	return st
}

// table is the place's default table, quoted.
func (p place) table() string { return pgx.Identifier{p.schema, "redo_records"}.Sanitize() }

const long = time.Hour // for a lease that must not run out

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
	g, err := st.Reserve(bounded(t), c)
	require.NoError(t, err)
	require.Equal(t, want, g.Verdict)
	return g
}

// bounded returns a context that ends before the test only when a rule is broken.
func bounded(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
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

// openSQL returns an SQLStore at the place, with a new pool.
func (p place) openSQL(t testing.TB) *pgstore.SQLStore {
	t.Helper()
	st, err := pgstore.NewSQL(p.db(t), append([]pgstore.Option{pgstore.WithSchema(p.schema)}, p.opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	require.NoError(t, st.Migrate(context.Background()))
	return st
}

// inMode returns a change of a pool's configuration.
func inMode(mode pgx.QueryExecMode) func(*pgxpool.Config) {
	return func(cfg *pgxpool.Config) { cfg.ConnConfig.DefaultQueryExecMode = mode }
}
