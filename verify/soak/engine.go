package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/store/pebblestore"
	"github.com/redo-go/redo/store/sqlitestore"
	"github.com/redo-go/redo/verify/internal/dbserver"
)

// An engine is an open store with what measures and ends it.
type engine struct {
	store.Store
	size  func(context.Context) (int64, error) // the bytes of its files or tables; for Redis, of its memory
	close func() error
}

// openEngine opens a new, empty store. The name is an embedded store, an installed server that it starts, or a URL.
func openEngine(ctx context.Context, name, dir string) (engine, error) {
	inDir := func(context.Context) (int64, error) { return sizeOf(dir) }
	switch scheme, _, _ := strings.Cut(name, ":"); scheme {
	case "memory":
		none := func(context.Context) (int64, error) { return 0, nil }
		return engine{memstore.New(), none, func() error { return nil }}, nil
	case "bolt":
		st, err := boltstore.Open(filepath.Join(dir, "soak.redo"))
		return engine{st, inDir, st.Close}, err
	case "pebble":
		st, err := pebblestore.Open(filepath.Join(dir, "soak.pebble"))
		return engine{st, inDir, st.Close}, err
	case "sqlite":
		st, err := sqlitestore.Open(ctx, filepath.Join(dir, "soak.db"), sqlitestore.WithMigrate())
		return engine{st, inDir, st.Close}, err
	case "redis", "rediss":
		start := func() (*dbserver.Server, error) { return dbserver.Redis("--appendonly", "no") }
		return onServer(ctx, name, start, openRedis)
	case "postgres", "postgresql":
		return onServer(ctx, name, dbserver.Postgres, openPostgres)
	case "mysql":
		if name == scheme {
			return onServer(ctx, name, dbserver.MariaDB, openMySQL)
		}
	}
	return engine{}, fmt.Errorf("-store %q: it must be memory, bolt, pebble, sqlite, redis, postgres, mysql, or the URL "+
		"of a Redis or a Postgres", name)
}

// onServer opens a store on the server of a URL. A name that is not a URL has it start a server of its own.
func onServer(
	ctx context.Context, name string, start func() (*dbserver.Server, error),
	open func(context.Context, string) (engine, error),
) (engine, error) {
	if strings.Contains(name, "://") {
		return open(ctx, name)
	}
	server, err := start()
	if err != nil {
		return engine{}, err
	}
	e, err := open(ctx, server.URL)
	if err != nil {
		return engine{}, errors.Join(err, server.Close())
	}
	closeStore := e.close
	e.close = func() error { return errors.Join(closeStore(), server.Close()) }
	return e, nil
}

// sizeOf returns the length of the files below a directory in bytes. A file may disappear meanwhile.
func sizeOf(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, f fs.DirEntry, err error) error {
		if err != nil || f.IsDir() {
			return ignoreMissing(err)
		}
		info, err := f.Info()
		if err == nil {
			n += info.Size()
		}
		return ignoreMissing(err)
	})
	return n, err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
