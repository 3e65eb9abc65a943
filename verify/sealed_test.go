package verify

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/store/mysqlstore"
	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/store/sqlitestore"
)

// marked is in every result, meta, body and header that a sealed store must not show.
const marked = "hunter2-in-the-clear"

// A vault is an engine with a way to read its bytes at rest.
type vault struct {
	st       store.Store
	transact func(ctx context.Context, st store.Store, key string) error // nil: the engine has no transactions
	sealTx   func(k *store.Keyring) store.Store
	atRest   func(t *testing.T) []byte
}

func boltVault(t *testing.T) vault {
	path := filepath.Join(t.TempDir(), "vault.redo")
	st, err := boltstore.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return vault{
		st:       st,
		sealTx:   func(k *store.Keyring) store.Store { return store.SealedTx(st, k) },
		transact: func(ctx context.Context, s store.Store, key string) error { return transact(ctx, s, st, key) },
		atRest: func(t *testing.T) []byte {
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			return b
		},
	}
}

func redisVault(t *testing.T) vault {
	e := newOnRedis(t).(*onRedis)
	return vault{st: e.open(t), atRest: func(t *testing.T) (all []byte) {
		b := e.admin.B()
		keys, err := e.admin.Do(t.Context(), b.Keys().Pattern(e.prefix+":*").Build()).AsStrSlice()
		require.NoError(t, err)
		for _, key := range keys {
			// A script reads a key of any type whole.
			const script = `local t = redis.call('TYPE', KEYS[1]).ok
				if t == 'hash' then return table.concat(redis.call('HGETALL', KEYS[1]), '\n') end
				if t == 'zset' then return table.concat(redis.call('ZRANGE', KEYS[1], 0, -1), '\n') end
				return redis.call('GET', KEYS[1])`
			value, err := e.admin.Do(t.Context(), b.Eval().Script(script).Numkeys(1).Key(key).Build()).ToString()
			require.NoError(t, err, key)
			all = append(append(all, key...), value...)
		}
		return all
	}}
}

func postgresVault(t *testing.T) vault {
	e := newOnPostgres(t).(*onPostgres)
	st := e.open(t).(*pgstore.Store)
	return vault{
		st:       st,
		sealTx:   func(k *store.Keyring) store.Store { return store.SealedTx(st, k) },
		transact: func(ctx context.Context, s store.Store, key string) error { return transact(ctx, s, st, key) },
		atRest: func(t *testing.T) []byte {
			// These are the bytes of a dump of the schema.
			rows, err := e.admin.Query(t.Context(),
				"SELECT relname FROM pg_class WHERE relnamespace = $1::text::regnamespace AND relkind IN ('r', 'p')",
				pgx.Identifier{e.name}.Sanitize())
			require.NoError(t, err)
			tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
			require.NoError(t, err)
			require.NotEmpty(t, tables)
			conn, err := e.admin.Acquire(t.Context())
			require.NoError(t, err)
			defer conn.Release()
			var all bytes.Buffer
			for _, table := range tables {
				_, err := conn.Conn().PgConn().CopyTo(t.Context(), &all,
					"COPY "+pgx.Identifier{e.name, table}.Sanitize()+" TO STDOUT (FORMAT binary)")
				require.NoError(t, err)
			}
			return all.Bytes()
		},
	}
}

func mysqlVault(t *testing.T) vault {
	e := newOnMySQL(t).(*onMySQL)
	st := e.open(t).(*mysqlstore.Store)
	return vault{
		st:       st,
		sealTx:   func(k *store.Keyring) store.Store { return store.SealedTx(st, k) },
		transact: func(ctx context.Context, s store.Store, key string) error { return transact(ctx, s, st, key) },
		atRest: func(t *testing.T) (all []byte) {
			var tables []string
			rows, err := e.admin.Query("SHOW TABLES")
			require.NoError(t, err)
			for rows.Next() {
				var name string
				require.NoError(t, rows.Scan(&name))
				tables = append(tables, name)
			}
			require.NoError(t, rows.Err())
			require.NotEmpty(t, tables)
			for _, table := range tables {
				all = append(all, dump(t, e.admin, "SELECT * FROM `"+table+"`")...)
			}
			return all
		},
	}
}

// dump returns all values of the query's rows.
func dump(t *testing.T, db *sql.DB, query string) (all []byte) {
	rows, err := db.Query(query)
	require.NoError(t, err)
	columns, err := rows.Columns()
	require.NoError(t, err)
	values, into := make([]sql.RawBytes, len(columns)), make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	for rows.Next() {
		require.NoError(t, rows.Scan(into...))
		all = append(all, bytes.Join(asBytes(values), []byte{'\n'})...)
	}
	require.NoError(t, rows.Err())
	return all
}

func asBytes(values []sql.RawBytes) (b [][]byte) {
	for _, v := range values {
		b = append(b, v)
	}
	return b
}

func sqliteVault(t *testing.T) vault {
	e := newOnSQLite(t)
	st := e.open(t).(*sqlitestore.Store)
	return vault{
		st:       st,
		sealTx:   func(k *store.Keyring) store.Store { return store.SealedTx(st, k) },
		transact: func(ctx context.Context, s store.Store, key string) error { return transact(ctx, s, st, key) },
		atRest: func(t *testing.T) (all []byte) {
			files, err := filepath.Glob(e.path + "*") // the log beside the file too
			require.NoError(t, err)
			require.NotEmpty(t, files)
			for _, file := range files {
				b, err := os.ReadFile(file)
				require.NoError(t, err)
				all = append(all, b...)
			}
			return all
		},
	}
}

// transact settles two records in transactions of the engine: one is committed, one is refused.
func transact[T any](ctx context.Context, s store.Store, _ store.TxStore[T], key string) error {
	for _, failed := range []bool{false, true} {
		c := secretClaim(fmt.Sprintf("%s/%v", key, failed))
		o := store.Outcome{Result: []byte(marked), Failed: failed}
		for _, again := range []bool{false, true} {
			got, repeated, err := store.Once(
				ctx,
				s.(store.TxStore[T]),
				c,
				func(context.Context, T) (store.Outcome, error) { return o, nil },
			)
			if err != nil || repeated != again || string(got.Result) != marked || got.Failed != failed {
				return fmt.Errorf("%s: again %v, %v %q: %w", c.ID, repeated, got.Failed, got.Result, err)
			}
		}
	}
	return nil
}

func secretClaim(key string) store.Claim {
	return store.Claim{
		ID: store.ID{
			Scope: "sealed",
			Key:   key,
		},
		Owner:     "owner",
		Meta:      []byte("meta " + marked),
		Lease:     time.Minute,
		Retention: time.Hour,
	}
}

// use puts the marked secret through all that keeps results and metas.
func (v vault) use(t *testing.T, st store.Store) {
	t.Helper()
	for key, o := range map[string]store.Outcome{"complete": {}, "failed": {Failed: true}} {
		g, err := st.Reserve(t.Context(), secretClaim(key))
		require.NoError(t, err)
		require.NoError(t, st.Extend(t.Context(), g.Lease, time.Minute, []byte("checkpoint "+marked)))
		o.Result = []byte("result " + marked)
		require.NoError(t, st.Complete(t.Context(), g.Lease, o))
		g, err = st.Reserve(t.Context(), secretClaim(key))
		require.NoError(t, err)
		require.Equal(t, "result "+marked, string(g.Record.Result))
		require.Equal(t, "checkpoint "+marked, string(g.Record.Meta))
	}
	_, err := st.Reserve(t.Context(), secretClaim("pending"))
	require.NoError(t, err)
	if v.transact != nil {
		require.NoError(t, v.transact(t.Context(), st, "transaction"))
	}
	throughClientAndServer(t, st)
}

// throughClientAndServer sends a stored operation to a server, both over the store, and has each replay it.
func throughClientAndServer(t *testing.T, st store.Store) {
	mw, err := server.New(st, server.SharedKeys())
	require.NoError(t, err)
	runs := 0
	srv := httptest.NewServer(mw(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		runs++
		w.Header().Set("X-Result", marked)
		w.WriteHeader(http.StatusCreated)
		_, _ = io.Copy(w, r.Body)
	})))
	defer srv.Close()
	for range 2 {
		client, err := redo.New(redo.WithStore(st))
		require.NoError(t, err)
		ctx := redo.WithOperation(t.Context(), "operation")
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+"/refunds",
			strings.NewReader("body "+marked))
		require.NoError(t, err)
		resp, err := client.Do(req)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, "body "+marked, string(body))
		require.NoError(t, client.Close())
	}
	require.Equal(t, 1, runs)
}

// TestSealedSecretsAreNotAtRest looks for the secret in the bytes of each engine. The plain store, used in the
// same way, shows it, so the search is known to work.
func TestSealedSecretsAreNotAtRest(t *testing.T) {
	for name, open := range map[string]func(*testing.T) vault{
		"a bolt file": boltVault, "Redis": redisVault, "Postgres": postgresVault, "MySQL": mysqlVault,
		"a SQLite file": sqliteVault,
	} {
		t.Run(name, func(t *testing.T) {
			t.Run("plain", func(t *testing.T) {
				v := open(t)
				v.use(t, v.st)
				require.Contains(t, string(v.atRest(t)), marked)
			})
			t.Run("sealed", func(t *testing.T) {
				v := open(t)
				k, err := store.NewKeyring(
					store.SealKeys{Seal: store.SealKey{ID: "1", Secret: bytes.Repeat([]byte("k"), store.SealSecret)}},
				)
				require.NoError(t, err)
				st := store.Sealed(v.st, k)
				if v.sealTx != nil {
					st = v.sealTx(k)
				}
				v.use(t, st)
				kept := string(v.atRest(t))
				require.NotEmpty(t, kept)
				require.NotContains(t, kept, marked)
			})
		})
	}
}
