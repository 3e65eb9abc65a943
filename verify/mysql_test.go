package verify

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/mysqlstore"
	"github.com/redo-go/redo/store/sqltx"
)

func TestHistoriesOnMySQL(t *testing.T) { historiesOn(t, newOnMySQL) }

func TestTransactionsOnMySQL(t *testing.T) {
	e := newOnMySQL(t).(*onMySQL)
	_, err := e.admin.Exec("CREATE TABLE effects (scope VARCHAR(200), effect VARCHAR(200))")
	require.NoError(t, err)
	transactionsOn(t, e, func(st store.Store, scope string) transactor {
		my := st.(*mysqlstore.Store)
		return overSQL(my, my, my, e.admin, scope)
	})
}

// onMySQL is a database on the server.
type onMySQL struct {
	line
	name  string
	cfg   *mysql.Config
	admin *sql.DB
}

func newOnMySQL(t *testing.T) engine {
	t.Helper()
	_ = mysql.SetLogger(&mysql.NopLogger{}) // connections are broken on purpose
	cfg, err := mysql.ParseDSN(mariadb.url(t))
	require.NoError(t, err)
	e := &onMySQL{name: newName(), cfg: cfg}
	server, err := sql.Open("mysql", cfg.FormatDSN())
	require.NoError(t, err)
	_, err = server.Exec("CREATE DATABASE `" + e.name + "`")
	require.NoError(t, err)
	cfg.DBName = e.name
	e.admin, err = sql.Open("mysql", cfg.FormatDSN())
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := server.Exec("DROP DATABASE `" + e.name + "`")
		require.NoError(t, err)
		require.NoError(t, errors.Join(server.Close(), e.admin.Close()))
	})
	return e
}

func (e *onMySQL) open(t *testing.T) store.Store {
	t.Helper()
	cfg := e.cfg.Clone()
	cfg.InterpolateParams = true
	cfg.DialFunc = func(ctx context.Context, network, to string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, to)
		if err != nil {
			return nil, err
		}
		return e.over(conn), nil
	}
	connector, err := mysql.NewConnector(cfg)
	require.NoError(t, err)
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(6)
	db.SetMaxIdleConns(6)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	st, err := mysqlstore.New(db)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	require.NoError(t, st.Migrate(t.Context()))
	return st
}

// disturb ends sessions on the database, other than its own.
func (e *onMySQL) disturb(ctx context.Context) error {
	conn, err := e.admin.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	rows, err := conn.QueryContext(ctx, `SELECT id FROM information_schema.processlist
		WHERE db = ? AND id <> CONNECTION_ID() AND RAND() < 0.4`, e.name)
	if err != nil {
		return err
	}
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return errors.Join(err, rows.Close())
		}
		ids = append(ids, id)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for _, id := range ids {
		_, _ = conn.ExecContext(ctx, fmt.Sprint("KILL ", id)) // it may be gone by now
	}
	return nil
}

// overSQL is a transactor whose effects are in a table of the same database.
func overSQL(st store.TxStore[*sqltx.Tx], l store.Lister, f store.Forgetter, db *sql.DB, scope string) transactor {
	return transactional[*sqltx.Tx]{
		TxStore: st, Lister: l, Forgetter: f,
		write: func(ctx context.Context, tx *sqltx.Tx, effect string) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES (?, ?)", scope, effect)
			return err
		},
		read: func(ctx context.Context) (effects []string, err error) {
			rows, err := db.QueryContext(ctx, "SELECT effect FROM effects WHERE scope = ?", scope)
			if err != nil {
				return nil, err
			}
			for rows.Next() {
				var effect string
				if err := rows.Scan(&effect); err != nil {
					return nil, errors.Join(err, rows.Close())
				}
				effects = append(effects, effect)
			}
			return effects, errors.Join(rows.Err(), rows.Close())
		},
	}
}
