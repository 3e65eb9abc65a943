package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/redo-go/redo/benchmarks/contest"
	"github.com/redo-go/redo/benchmarks/post"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/store/pebblestore"
	"github.com/redo-go/redo/store/sqlitestore"
)

const byLog = "bare log, group commit"

// The content of a record: a header of 96 bytes, a request, and once it is complete a result.
var (
	request     = make([]byte, post.SmallBody)
	result      = make([]byte, 256)
	saved       = make([]byte, 96+len(request))
	completed   = make([]byte, 96+len(request)+len(result))
	fingerprint = store.Raw(http.MethodPost, post.MemoryURL, "", request)
)

// durableScenario measures an operation that is saved before it is sent, and completed after. Both writes are durable
// when they return: redo's stores do not complete lazily.
func durableScenario(callers int) contest.Scenario {
	return contest.Scenario{
		Name:      fmt.Sprintf("durable-%d", callers),
		Title:     fmt.Sprintf("an operation is saved, then completed, both durably; callers: %d", callers),
		Reference: byLog,
		Callers:   callers,
		Contestants: []contest.Contestant{
			{Name: byLog, Open: writing(callers, openBareLog)},
			{Name: "Pebble, two synced batches", Open: writing(callers, openPebble)},
			{Name: "SQLite, WAL, FULL", Open: writing(callers, openSQLite)},
			{Name: "boltstore", Open: storing(callers, openBoltstore)},
			{Name: "pebblestore", Open: storing(callers, openPebblestore)},
			{Name: "sqlitestore", Open: storing(callers, openSQLitestore)},
		},
	}
}

// operationName spreads the names as those of a real day would be: multiplying by an odd number is a permutation.
func operationName(i int) string {
	return fmt.Sprintf("refund:ch_%016x:1000", uint64(i)*0x9E3779B97F4A7C15)
}

// An engine writes a value durably. created is false for a key that it has already.
type engine struct {
	write func(key string, value []byte, created bool) error
	close func() error
}

// writing makes a contestant that writes both values of each operation.
func writing(callers int, open func(dir string) (engine, error)) func(string) (contest.Runner, error) {
	return func(dir string) (contest.Runner, error) {
		e, err := open(dir)
		if err != nil {
			return contest.Runner{}, err
		}
		return contest.Concurrently(callers, func(i int) error {
			key := operationName(i)
			if err := e.write(key, saved, true); err != nil {
				return err
			}
			return e.write(key, completed, false)
		}, e.close), nil
	}
}

func openBareLog(dir string) (engine, error) {
	l, err := openLog(filepath.Join(dir, "log"), syncData)
	if err != nil {
		return engine{}, err
	}
	return engine{func(key string, value []byte, _ bool) error { return l.add(key, value) }, l.close}, nil
}

// A silentLogger drops Pebble's reports of each flush, and keeps its last words.
type silentLogger struct{ pebble.Logger }

func (silentLogger) Infof(string, ...any)  {}
func (silentLogger) Errorf(string, ...any) {}

func openPebble(dir string) (engine, error) {
	db, err := pebble.Open(filepath.Join(dir, "pebble"), &pebble.Options{Logger: silentLogger{pebble.DefaultLogger}})
	if err != nil {
		return engine{}, err
	}
	return engine{func(key string, value []byte, _ bool) error {
		return db.Set([]byte(key), value, pebble.Sync)
	}, db.Close}, nil
}

// newSQLite uses one connection, because one transaction writes at a time.
func newSQLite(dir string) (*sql.DB, error) {
	settings := url.Values{"_pragma": {"journal_mode(WAL)", "synchronous(FULL)"}, "_txlock": {"immediate"}}
	where := url.URL{Scheme: "file", Path: filepath.Join(dir, "sqlite"), RawQuery: settings.Encode()}
	db, err := sql.Open("sqlite", where.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

func openSQLite(dir string) (engine, error) {
	db, err := newSQLite(dir)
	if err != nil {
		return engine{}, err
	}
	fail := func(err error) (engine, error) { return engine{}, errors.Join(err, db.Close()) }
	_, err = db.Exec("CREATE TABLE records (key TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID")
	if err != nil {
		return fail(err)
	}
	insert, err := db.Prepare("INSERT INTO records (value, key) VALUES (?, ?)")
	if err != nil {
		return fail(err)
	}
	update, err := db.Prepare("UPDATE records SET value = ? WHERE key = ?")
	if err != nil {
		return fail(err)
	}
	return engine{func(key string, value []byte, created bool) error {
		statement := update
		if created {
			statement = insert
		}
		_, err := statement.Exec(value, key)
		return err
	}, db.Close}, nil
}

// A closingStore is a store of redo.
type closingStore interface {
	store.Store
	Close() error
}

// storing makes a contestant that reserves and completes each operation.
func storing(callers int, open func(dir string) (closingStore, error)) func(string) (contest.Runner, error) {
	return func(dir string) (contest.Runner, error) {
		st, err := open(dir)
		if err != nil {
			return contest.Runner{}, err
		}
		return contest.Concurrently(callers, func(i int) error {
			ctx := context.Background()
			g, err := st.Reserve(ctx, store.Claim{
				ID:          store.ID{Scope: "redo", Key: operationName(i)},
				Fingerprint: fingerprint,
				Retention:   store.Forever,
				Meta:        request,
			})
			if err != nil {
				return err
			}
			if g.Verdict != store.Acquired {
				return fmt.Errorf("benchmarks: the verdict is %v, it must be %v", g.Verdict, store.Acquired)
			}
			return st.Complete(ctx, g.Lease, store.Outcome{Result: result})
		}, st.Close), nil
	}
}

func openBoltstore(dir string) (closingStore, error) {
	return boltstore.Open(filepath.Join(dir, "operations.redo"))
}

func openPebblestore(dir string) (closingStore, error) {
	return pebblestore.Open(filepath.Join(dir, "operations.redo"))
}

func openSQLitestore(dir string) (closingStore, error) {
	return sqlitestore.Open(context.Background(), filepath.Join(dir, "operations.db"), sqlitestore.WithMigrate())
}
