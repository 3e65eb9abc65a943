package sqlitestore_test

import (
	"context"
	"database/sql"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/sqlitestore"
	"github.com/redo-go/redo/store/sqltx"
	"github.com/redo-go/redo/store/storetest"
)

func TestContract(t *testing.T) {
	f := files{}
	storetest.Run(t, func(t *testing.T) store.Store { return f.open(t, newFile(t)) },
		storetest.Beside(func(t *testing.T, first store.Store) store.Store { return f.open(t, f[first]) }),
		storetest.Reopen(func(t *testing.T, st store.Store) store.Store {
			require.NoError(t, st.(*sqlitestore.Store).Close())
			return f.open(t, f[st])
		}),
		storetest.Damage(func(t *testing.T, st store.Store, id store.ID) store.Store {
			sqlExec(t, f[st], "UPDATE redo_records SET fingerprint = x'00' WHERE scope = ? AND id_key = ?",
				[]byte(id.Scope), []byte(id.Key))
			return st
		}), storetest.Faults(inject))
}

func TestTxContract(t *testing.T) {
	f := files{}
	write := func(ctx context.Context, tx *sqltx.Tx, text string, args ...any) error {
		_, err := tx.ExecContext(ctx, text, args...)
		return err
	}
	storetest.RunTx(t, storetest.TxHarness[*sqltx.Tx]{
		Open: func(t *testing.T) store.TxStore[*sqltx.Tx] {
			path := newFile(t)
			st := f.open(t, path)
			sqlExec(t, path, "CREATE TABLE effects (key TEXT NOT NULL)")
			return st
		},
		Write: func(ctx context.Context, tx *sqltx.Tx, key string) error {
			return write(ctx, tx, "INSERT INTO effects VALUES (?)", key)
		},
		Written: func(ctx context.Context, st store.TxStore[*sqltx.Tx], key string) (n int, err error) {
			db, err := sql.Open("sqlite", uri(f[st]))
			if err != nil {
				return 0, err
			}
			defer db.Close()
			err = db.QueryRowContext(ctx, "SELECT count(*) FROM effects WHERE key = ?", key).Scan(&n)
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
		SingleWriter: true,
	}, storetest.Beside(func(t *testing.T, first store.Store) store.Store { return f.open(t, f[first]) }),
		storetest.Reopen(func(t *testing.T, st store.Store) store.Store {
			require.NoError(t, st.(*sqlitestore.Store).Close())
			return f.open(t, f[st])
		}), storetest.Faults(inject))
}

// inject closes the store. A file has no connection that could be cut.
func inject(t *testing.T, st store.Store, f storetest.Fault) func() {
	if f != storetest.Closed {
		return nil
	}
	require.NoError(t, st.(*sqlitestore.Store).Close())
	return func() {}
}

// files holds the path of each store that a test has opened.
type files map[store.Store]string

func (f files) open(t testing.TB, path string) *sqlitestore.Store {
	st := open(t, path)
	f[st] = path
	return st
}

// newFile returns a path whose characters mean something in a URI.
func newFile(t testing.TB) string { return filepath.Join(t.TempDir(), "a file?x=%41#b.db") }

func open(t testing.TB, path string, opts ...sqlitestore.Option) *sqlitestore.Store {
	t.Helper()
	st, err := sqlitestore.Open(context.Background(), path, append(opts, sqlitestore.WithMigrate())...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

// sqlExec runs a statement on a separate connection, as another program would.
func sqlExec(t testing.TB, path, text string, args ...any) {
	t.Helper()
	db := connect(t, path)
	defer db.Close()
	_, err := db.Exec(text, args...)
	require.NoError(t, err, text)
}

func uri(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }

func connect(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", uri(path))
	require.NoError(t, err)
	return db
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
