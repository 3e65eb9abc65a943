package mysqlstore_test

import (
	"context"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/racetest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/mysqlstore"
	"github.com/redo-go/redo/store/mysqlstore/mysqltest"
	"github.com/redo-go/redo/store/sqltx"
	"github.com/redo-go/redo/store/storetest"
)

func TestContract(t *testing.T) { contract(t) }

// Without interpolateParams statements are prepared, and a session may have other settings.
func TestContractWithOtherSettings(t *testing.T) {
	racetest.Repeats(t)
	isolation, ignored := "", ""
	admin := newPlace(t, mysqltest.DSN(t)).admin
	const names = "SHOW VARIABLES WHERE Variable_name IN ('tx_isolation', 'transaction_isolation')"
	require.NoError(t, admin.QueryRow(names).Scan(&isolation, &ignored))
	contract(t, func(cfg *mysql.Config) {
		cfg.InterpolateParams, cfg.ClientFoundRows, cfg.ParseTime = false, true, true
		cfg.Params = map[string]string{
			"time_zone": "'-07:30'", "sql_mode": "'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES'",
			isolation: "'SERIALIZABLE'",
		}
	})
}

func contract(t *testing.T, change ...func(*mysql.Config)) {
	p := places{}
	factory := func(t *testing.T) store.Store { return p.proxied(t, newPlace(t, mysqltest.DSN(t)), change...) }
	storetest.Run(t, factory,
		storetest.Beside(func(t *testing.T, first store.Store) store.Store { return p.open(t, p[first], change...) }),
		storetest.Reopen(func(t *testing.T, st store.Store) store.Store { return p.reopen(t, st, change...) }),
		storetest.Damage(func(t *testing.T, st store.Store, id store.ID) store.Store {
			p[st].exec(t, "UPDATE redo_records SET fingerprint = '' WHERE scope = ? AND id_key = ?",
				[]byte(id.Scope), []byte(id.Key))
			return st
		}), storetest.Faults(p.inject))
}

func TestTxContract(t *testing.T) {
	p := places{}
	write := func(ctx context.Context, tx *sqltx.Tx, text string, args ...any) error {
		_, err := tx.ExecContext(ctx, text, args...)
		return err
	}
	storetest.RunTx(t, storetest.TxHarness[*sqltx.Tx]{
		Open: func(t *testing.T) store.TxStore[*sqltx.Tx] {
			at := newPlace(t, mysqltest.DSN(t))
			at.exec(t, "CREATE TABLE effects (id_key VARCHAR(200) NOT NULL)")
			return p.proxied(t, at)
		},
		Write: func(ctx context.Context, tx *sqltx.Tx, key string) error {
			return write(ctx, tx, "INSERT INTO effects VALUES (?)", key)
		},
		Written: func(ctx context.Context, st store.TxStore[*sqltx.Tx], key string) (n int, err error) {
			err = p[st].admin.QueryRowContext(ctx, "SELECT COUNT(*) FROM effects WHERE id_key = ?", key).Scan(&n)
			return n, err
		},
		Fail: func(ctx context.Context, tx *sqltx.Tx) error {
			return write(ctx, tx, "INSERT INTO effects VALUES (NULL)")
		},
		Commit:   func(_ context.Context, tx *sqltx.Tx) error { return tx.Commit() },
		Rollback: func(_ context.Context, tx *sqltx.Tx) error { return tx.Rollback() },
		Ends: []func(context.Context, *sqltx.Tx) error{
			func(ctx context.Context, tx *sqltx.Tx) error { return write(ctx, tx, "COMMIT") },
			func(ctx context.Context, tx *sqltx.Tx) error { return write(ctx, tx, "ROLLBACK") },
		},
	}, storetest.Beside(func(t *testing.T, first store.Store) store.Store { return p.open(t, p[first]) }),
		storetest.Reopen(func(t *testing.T, st store.Store) store.Store { return p.reopen(t, st) }),
		storetest.Faults(p.inject))
}

// places holds the place of each store that a test has opened.
type places map[store.Store]place

func (p places) open(t testing.TB, at place, change ...func(*mysql.Config)) *mysqlstore.Store {
	st, err := mysqlstore.New(at.pool(t, at.dsn, change...))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	require.NoError(t, st.Migrate(context.Background()))
	p[st] = at
	return st
}

// proxied opens a store through a proxy, unless the server is at a socket.
func (p places) proxied(t *testing.T, at place, change ...func(*mysql.Config)) *mysqlstore.Store {
	cfg, err := mysql.ParseDSN(at.dsn)
	require.NoError(t, err)
	if cfg.Net == "tcp" {
		at.proxy = storetest.NewProxy(t, cfg.Addr)
		change = append(change, func(cfg *mysql.Config) { cfg.Addr = at.proxy.Addr() })
	}
	return p.open(t, at, change...)
}

func (p places) inject(t *testing.T, st store.Store, f storetest.Fault) func() {
	switch {
	case f == storetest.Closed:
		require.NoError(t, st.(*mysqlstore.Store).Close())
		return func() {}
	case p[st].proxy == nil:
		return nil
	}
	return p[st].proxy.Inject(f)
}

func (p places) reopen(t testing.TB, st store.Store, change ...func(*mysql.Config)) *mysqlstore.Store {
	require.NoError(t, st.(*mysqlstore.Store).Close())
	return p.open(t, p[st], change...)
}
