package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/store/redisstore"
	"github.com/redo-go/redo/store/sqlitestore"
	"github.com/redo-go/redo/verify/internal/pgschema"
)

// An engine is an open store with the directory of its files.
type engine struct {
	store.Store
	dir   string // "" if the store has no files of its own
	close func() error
}

// openEngine opens a new, empty store: memory, bolt, sqlite, or the URL of a Postgres or a Redis.
func openEngine(ctx context.Context, name, dir string) (e engine, err error) {
	switch scheme, _, _ := strings.Cut(name, ":"); scheme {
	case "memory":
		return engine{Store: memstore.New(), close: func() error { return nil }}, nil
	case "bolt":
		st, err := boltstore.Open(filepath.Join(dir, "soak.redo"))
		return engine{st, dir, st.Close}, err
	case "sqlite":
		st, err := sqlitestore.Open(ctx, filepath.Join(dir, "soak.db"), sqlitestore.WithMigrate())
		return engine{st, dir, st.Close}, err
	case "redis", "rediss":
		st, err := redisstore.Open(ctx, name, redisstore.WithPrefix("soak-"+filepath.Base(dir)))
		return engine{st, "", st.Close}, err
	case "postgres", "postgresql":
		db, err := pgschema.Open(ctx, name, "choose another -store")
		if err != nil {
			return engine{}, err
		}
		schema, err := db.Create(ctx, "redo_soak_", func(schema string) (string, error) {
			return pgstore.Migration(pgstore.WithSchema(schema))
		})
		if err != nil {
			return engine{}, err
		}
		st, err := pgstore.New(db.Pool, pgstore.WithSchema(schema))
		closeBoth := func() error {
			err := st.Close()
			db.Close()
			return err
		}
		return engine{st, "", closeBoth}, err
	}
	return engine{}, fmt.Errorf("-store %q: it must be memory, bolt, sqlite, or the URL of a Postgres or a Redis", name)
}

// size returns the length of the store's files in bytes.
func (e engine) size() (n int64) {
	if e.dir == "" {
		return 0
	}
	files, _ := os.ReadDir(e.dir)
	for _, f := range files {
		if info, err := f.Info(); err == nil {
			n += info.Size()
		}
	}
	return n
}
