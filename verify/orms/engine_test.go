package orms

import (
	"context"
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/mysqlstore"
	"github.com/redo-go/redo/store/mysqlstore/mysqltest"
	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/store/pgstore/pgtest"
	"github.com/redo-go/redo/store/sqlitestore"
	"github.com/redo-go/redo/store/sqltx"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// An engine is a program's database, with a store that keeps its records in it.
type engine struct {
	name  string
	db    *sql.DB
	store interface {
		store.TxStore[*sqltx.Tx]
		Migrate(ctx context.Context) error
		Check(ctx context.Context) error
	}
}

// makeTables makes the tables of the store and of the program.
func (e engine) makeTables(t *testing.T, id string) engine {
	t.Helper()
	require.NoError(t, e.store.Migrate(t.Context()))
	require.NoError(t, e.store.Check(t.Context()))
	return e.makeOrders(t, id)
}

// makeOrders makes the tables of the program.
func (e engine) makeOrders(t *testing.T, id string) engine {
	t.Helper()
	for _, statement := range []string{
		"CREATE TABLE orders (id " + id + ", item VARCHAR(100) UNIQUE)",
		"CREATE TABLE parcels (id " + id + ", order_id BIGINT)",
	} {
		_, err := e.db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	return e
}

// items returns the orders that are committed.
func (e engine) items(t *testing.T) []string {
	t.Helper()
	rows, err := e.db.QueryContext(t.Context(), "SELECT item FROM orders ORDER BY item")
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	var items []string
	for rows.Next() {
		var item string
		require.NoError(t, rows.Scan(&item))
		items = append(items, item)
	}
	require.NoError(t, rows.Err())
	return items
}

var databases atomic.Int64

// newDatabase makes a database of Postgres and returns its URL.
func newDatabase(t *testing.T) string {
	t.Helper()
	at, err := url.Parse(pgtest.URL(t))
	require.NoError(t, err)
	name := "redo_orms_" + strconv.Itoa(os.Getpid()) + "_" + strconv.FormatInt(databases.Add(1), 10)
	admin := pgtest.Connect(t, at.String())
	pgtest.Exec(t, admin, "CREATE DATABASE "+name)
	t.Cleanup(func() {
		_, err := admin.Exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)")
		require.NoError(t, err)
	})
	at.Path = "/" + name
	return at.String()
}

func open(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func postgres(t *testing.T) engine {
	t.Helper()
	db := open(t, "pgx", newDatabase(t))
	st, err := pgstore.NewSQL(db)
	require.NoError(t, err)
	return engine{"postgres", db, st}.makeTables(t, "BIGSERIAL PRIMARY KEY")
}

func mariadb(t *testing.T) engine {
	t.Helper()
	cfg, err := mysql.ParseDSN(mysqltest.Private(t).DSN)
	require.NoError(t, err)
	_, err = open(t, "mysql", cfg.FormatDSN()).ExecContext(t.Context(), "CREATE DATABASE shop")
	require.NoError(t, err)
	cfg.DBName = "shop"
	db := open(t, "mysql", cfg.FormatDSN())
	st, err := mysqlstore.New(db)
	require.NoError(t, err)
	return engine{"mysql", db, st}.makeTables(t, "BIGINT PRIMARY KEY AUTO_INCREMENT")
}

func sqlite(t *testing.T) engine {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shop.db")
	st, err := sqlitestore.Open(t.Context(), path, sqlitestore.WithMigrate())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	db := open(t, "sqlite", path)
	return engine{"sqlite", db, st}.makeTables(t, "INTEGER PRIMARY KEY AUTOINCREMENT")
}
