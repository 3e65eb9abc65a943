package mysqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/mysqlstore"
	"github.com/redo-go/redo/store/storetest"
)

// A place is a database of the test's own on a server.
type place struct {
	dsn   string // of the database
	admin *sql.DB
	conns int
	proxy *storetest.Proxy // of the stores that open through one
}

var databases atomic.Int64

// newPlace makes a database whose name needs quoting.
func newPlace(t testing.TB, dsn string) place {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	require.NoError(t, err)
	cfg.DBName = fmt.Sprintf("redo-`test`-%d-%d", os.Getpid(), databases.Add(1))
	quoted := fmt.Sprintf("`redo-``test``-%d-%d`", os.Getpid(), databases.Load())
	server, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	_, err = server.Exec("CREATE DATABASE " + quoted)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := server.Exec("DROP DATABASE " + quoted)
		require.NoError(t, err)
		require.NoError(t, server.Close())
	})
	p := place{dsn: cfg.FormatDSN(), conns: 8}
	p.admin, err = sql.Open("mysql", p.dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.admin.Close()) })
	return p
}

// open returns a store at the place, with a new pool.
func (p place) open(t testing.TB, opts ...mysqlstore.Option) *mysqlstore.Store {
	t.Helper()
	db := p.pool(t, p.dsn)
	st, err := mysqlstore.New(db, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	require.NoError(t, st.Migrate(context.Background()))
	return st
}

func (p place) pool(t testing.TB, dsn string, change ...func(*mysql.Config)) *sql.DB {
	t.Helper()
	cfg, err := mysql.ParseDSN(dsn)
	require.NoError(t, err)
	cfg.InterpolateParams = true
	for _, f := range change {
		f(cfg)
	}
	connector, err := mysql.NewConnector(cfg)
	require.NoError(t, err)
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(p.conns)
	db.SetMaxIdleConns(p.conns)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func (p place) exec(t testing.TB, text string, args ...any) {
	t.Helper()
	_, err := p.admin.ExecContext(context.Background(), text, args...)
	require.NoError(t, err, text)
}

func (p place) count(t testing.TB, text string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, p.admin.QueryRowContext(context.Background(), text, args...).Scan(&n), text)
	return n
}

func claim(key string) store.Claim {
	return store.Claim{
		ID:          store.ID{Scope: "scope", Key: key},
		Fingerprint: store.Raw("POST", "/refunds", "", []byte("body")),
		Lease:       time.Hour,
		Retention:   24 * time.Hour,
		Meta:        []byte("meta"),
	}
}

func unleased(key string) store.Claim {
	c := claim(key)
	c.Lease = 0
	return c
}

// patience bounds a Reserve. It is spent only when a rule is broken.
const patience = 2 * time.Minute

func reserve(t testing.TB, st store.Store, c store.Claim, want store.Verdict) store.Grant {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	g, err := st.Reserve(ctx, c)
	require.NoError(t, err)
	require.Equal(t, want, g.Verdict)
	return g
}
