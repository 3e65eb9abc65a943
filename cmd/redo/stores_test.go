package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/store/mysqlstore"
	"github.com/redo-go/redo/store/mysqlstore/mysqltest"
	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/store/pgstore/pgtest"
	"github.com/redo-go/redo/store/redisstore"
	"github.com/redo-go/redo/store/sqlitestore"
)

// An emptyStore creates a store. It returns how the command line names it, and a function that opens it.
type emptyStore func(t *testing.T) (name string, flags []string, open func() (recordStore, error))

var engines = map[engine]emptyStore{
	boltFile: func(t *testing.T) (string, []string, func() (recordStore, error)) {
		file := filepath.Join(t.TempDir(), "payments.redo")
		return file, nil, func() (recordStore, error) { return checked(boltstore.Open(file)) }
	},
	sqliteFile: func(t *testing.T) (string, []string, func() (recordStore, error)) {
		file := filepath.Join(t.TempDir(), "payments.db")
		return file, nil, func() (recordStore, error) {
			return checked(sqlitestore.Open(t.Context(), file, sqlitestore.WithMigrate()))
		}
	},
	postgres: func(t *testing.T) (string, []string, func() (recordStore, error)) {
		url := pgtest.URL(t)
		schema := pgtest.NewSchema(t, url)
		opts := []pgstore.Option{pgstore.WithSchema(schema), pgstore.WithTable("claims"), pgstore.WithMigrate()}
		return url, []string{"--schema", schema, "--table", "claims"}, func() (recordStore, error) {
			return checked(pgstore.Open(t.Context(), url, opts...))
		}
	},
	mySQL: func(t *testing.T) (string, []string, func() (recordStore, error)) {
		db, err := sql.Open("mysql", mysqltest.Private(t).DSN)
		require.NoError(t, err)
		defer db.Close()
		_, err = db.Exec("CREATE DATABASE shop")
		require.NoError(t, err)
		var port int
		require.NoError(t, db.QueryRow("SELECT @@port").Scan(&port))
		url := fmt.Sprintf("mysql://root@127.0.0.1:%d/shop", port)
		dsn, err := mysqlDSN(url)
		require.NoError(t, err)
		return url, []string{"--table", "claims"}, func() (recordStore, error) {
			return checked(mysqlstore.Open(t.Context(), dsn, mysqlstore.WithMigrate(), mysqlstore.WithTable("claims")))
		}
	},
	redis: func(t *testing.T) (string, []string, func() (recordStore, error)) {
		url := os.Getenv("REDO_TEST_REDIS")
		if url == "" && os.Getenv("REDO_TEST_REQUIRE") != "1" {
			t.Skip("REDO_TEST_REDIS is not set")
		}
		require.NotEmpty(t, url, "REDO_TEST_REDIS")
		prefix := fmt.Sprintf("cmd-%d-%d", os.Getpid(), time.Now().UnixNano())
		return url, []string{"--prefix", prefix}, func() (recordStore, error) {
			return checked(redisstore.Open(t.Context(), url, redisstore.WithPrefix(prefix)))
		}
	},
}

// routeScope is the scope in the help's examples.
const routeScope = "12:POST /orders"

func TestTheScopeOfTheExamplesIsTheMiddlewares(t *testing.T) {
	st := memstore.New()
	mux := http.NewServeMux()
	once := server.Middleware(st, server.SharedKeys())
	mux.Handle("POST /orders", once(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
	})))
	req := httptest.NewRequest(http.MethodPost, "/orders", nil)
	req.Header.Set("Idempotency-Key", "order-1")
	mux.ServeHTTP(httptest.NewRecorder(), req)
	_, err := st.Find(t.Context(), store.ID{Scope: routeScope, Key: "order-1"})
	require.NoError(t, err)
}

// recordIn leaves a settled record of a response, and a pending one.
func recordIn(t *testing.T, st store.Store) {
	t.Helper()
	for _, key := range []string{"order-1", "order-2"} {
		g, err := st.Reserve(t.Context(), store.Claim{
			ID: store.ID{Scope: routeScope, Key: key}, Lease: time.Hour, Retention: time.Hour, Owner: "pod-7",
		})
		require.NoError(t, err)
		if key == "order-1" {
			resp := wire.Response{
				Status: http.StatusCreated, Body: []byte(`{"id":"o1"}`),
				Header: http.Header{"Location": {"/orders/o1"}, "Set-Cookie": {"session=very-secret"}},
			}
			result := wire.AppendResponse(nil, resp)
			require.NoError(t, st.Complete(t.Context(), g.Lease, store.Outcome{Result: result}))
		}
	}
}

// An operator lists, shows, settles, forgets and finds in each engine, by the command line and by the console.
func TestCommandsWorkOnEachEngine(t *testing.T) {
	for on, create := range engines {
		t.Run(string(on), func(t *testing.T) {
			name, flags, open := create(t)
			st, err := open()
			require.NoError(t, err)
			leaveUnknown(t, st, "refund:1")
			recordIn(t, st)
			require.NoError(t, st.Close())
			command := func(want int, args ...string) string {
				t.Helper()
				var out bytes.Buffer
				in := terminal{in: strings.NewReader("y\n"), out: &out, err: &out}
				status := run(t.Context(), append(args, flags...), in)
				require.Equal(t, want, status, "%v: %s", args, out.String())
				return out.String()
			}

			require.Contains(t, command(0, "ops", "list", name), "refund:1")
			require.Contains(t, command(0, "find", name, "refund:1"), "operation  refund:1  pending")
			page, stop := startConsole(t, append([]string{name}, flags...)...)
			require.Contains(t, get(t, page+"/"), "refund:1")
			status, errs := stop()
			require.Zero(t, status, errs)
			settled := command(0, "ops", "settle", name, "refund:1", "--applied", "--evidence", "rf_1", "--by", "ana")
			require.Contains(t, settled, "is settled as applied")
			require.Contains(t, command(0, "ops", "show", name, "refund:1"), "applied, by ana: rf_1")

			listing := command(0, "records", "list", name)
			// A lease in a boltstore file ends when the file is opened again.
			require.Regexp(t, routeScope+`  order-2  \d+s  +(59m\d+s|1h0m0s|expired)  +pod-7`, listing)
			require.NotContains(t, listing, "order-1", "it is settled")
			var listed []record
			text := command(0, "records", "list", name, "--json", "--scope", routeScope)
			require.NoError(t, json.Unmarshal([]byte(text), &listed))
			require.Len(t, listed, 1)
			require.Equal(t, "nothing is pending\n", command(0, "records", "list", name, "--scope", "other"))
			shown := command(0, "records", "show", name, routeScope, "order-1")
			require.Contains(t, shown, "status   201\n")
			require.Contains(t, shown, "header   Location: /orders/o1\n")
			require.Contains(t, shown, "11 bytes, shown by --body")
			require.NotContains(t, shown, "very-secret")
			shown = command(0, "records", "show", name, routeScope, "order-1", "--body")
			require.Contains(t, shown, "\n"+`{"id":"o1"}`+"\n")
			require.Contains(t, command(0, "find", name, "order-2"), "record "+routeScope+"  order-2  pending")

			require.Contains(t, command(exitFailed, "records", "drop", name, routeScope, "order-1"),
				"is not damaged")
			for _, key := range []string{"order-1", "order-2"} {
				require.Contains(t, command(0, "records", "forget", name, routeScope, key), key+" is forgotten")
				require.Contains(t, command(exitFailed, "records", "show", name, routeScope, key),
					"there is no record")
			}
			require.Contains(t, command(exitFailed, "find", name, "order-2"), `"order-2" is no operation`)
			require.Equal(t, "0 deleted\n", command(0, "records", "purge", name))
		})
	}
}

func TestAStoreIsNamedByAFileOrAURL(t *testing.T) {
	file := filepath.Join(t.TempDir(), "is-not-there")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{file}, exitFailed, "there is no file"},
		{[]string{"ana:hush@tcp(db:3306)/shop"}, exitFailed, "a database is named by a URL"},
		{[]string{"host=db user=ana password=hush"}, exitFailed, "a database is named by a URL"},
		{[]string{"ftp://host/x"}, exitUsage, "a store in ftp:// is not known"},
		{[]string{"mysql://root:hush@host"}, exitFailed, "mysql://user:password@host:3306/database"},
		{[]string{"redis://127.0.0.1:1/0", "--table", "t"}, exitUsage, `--table "t": Redis has none`},
		{[]string{"mysql://host/db", "--prefix", "p"}, exitUsage, `--prefix "p": MySQL has none`},
		{[]string{"redis://127.0.0.1:1/0", "--schema", "s"}, exitUsage, `--schema "s": Redis has none`},
		{[]string{"postgres://u:hush@127.0.0.1:1/db"}, exitFailed, "connection refused"},
		{[]string{"redis://:hush@127.0.0.1:1/0"}, exitFailed, "connection refused"},
		{[]string{"mysql://u:hush@127.0.0.1:1/db"}, exitFailed, "connection refused"},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			var out bytes.Buffer
			status := run(t.Context(), append([]string{"records", "list"}, c.args...), terminal{out: &out, err: &out})
			require.Equal(t, c.code, status, out.String())
			require.Contains(t, out.String(), c.want)
			require.NotContains(t, out.String(), "hush")
			require.NoFileExists(t, file)
		})
	}
}

func TestAFileOfSQLiteIsNamedWhereBoltstoreIsNeeded(t *testing.T) {
	file, _, open := engines[sqliteFile](t)
	st, err := open()
	require.NoError(t, err)
	require.NoError(t, st.Close())
	for _, args := range [][]string{{"events", "list", file}, {"inbox", "list", file}, {"ops", "verify", file}} {
		var out bytes.Buffer
		require.Equal(t, exitFailed, run(t.Context(), args, terminal{out: &out, err: &out}))
		require.Contains(t, out.String(), `is a SQLite file: this command needs a boltstore file`)
	}
}

// A list under the wrong prefix must not create a store, which a later backup would hold.
func TestAMissingStoreInRedisIsAnErrorAndIsNotCreated(t *testing.T) {
	url, flags, _ := engines[redis](t)
	for range 2 {
		var out bytes.Buffer
		status := run(t.Context(), append([]string{"ops", "list", url}, flags...), terminal{out: &out, err: &out})
		require.Equal(t, exitFailed, status, out.String())
		require.Contains(t, out.String(), flags[1]+`:layout", see --prefix and the number of the database in the URL`)
	}
}

func TestTheDSNOfAMySQLURL(t *testing.T) {
	for url, want := range map[string]string{
		"mysql://ana:p%40ss@db.example/shop":          "ana:p@ss@tcp(db.example:3306)/shop",
		"mysql://ana@[::1]:3307/shop?tls=true":        "ana@tcp([::1]:3307)/shop?tls=true",
		"mysql://ana@db/shop?tls=skip-verify&x=1%202": "ana@tcp(db:3306)/shop?tls=skip-verify&x=1%202",
	} {
		dsn, err := mysqlDSN(url)
		require.NoError(t, err)
		require.Equal(t, want, dsn)
	}
}

// The record is complete for the store, so that the handler never runs again.
func TestARecordWhoseEffectIsNotKnownIsNotShownAsComplete(t *testing.T) {
	file := filepath.Join(t.TempDir(), "orders.redo")
	st, err := boltstore.Open(file)
	require.NoError(t, err)
	claim := store.Claim{ID: store.ID{Key: "order-1"}, Lease: time.Minute, Retention: time.Hour}
	g, err := st.Reserve(t.Context(), claim)
	require.NoError(t, err)
	require.NoError(t, st.Complete(t.Context(), g.Lease, store.UnknownOutcome()))
	require.NoError(t, st.Close())
	for _, flags := range [][]string{nil, {"--json"}} {
		var out bytes.Buffer
		args := append([]string{"records", "show", file, "", "order-1"}, flags...)
		require.Zero(t, run(t.Context(), args, terminal{out: &out, err: &out}), out.String())
		require.Contains(t, out.String(), "unknown")
		require.NotContains(t, out.String(), "complete")
	}
}
