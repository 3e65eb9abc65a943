package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redo-go/redo/outbox/boltoutbox"
	"github.com/redo-go/redo/outbox/pgoutbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/store/mysqlstore"
	"github.com/redo-go/redo/store/pebblestore"
	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/store/redisstore"
	"github.com/redo-go/redo/store/sqlitestore"
)

// A place holds the stores of a round. Gateways, services and consumers have a store of their own in it.
type place struct {
	Store string `json:"store"`
	URL   string `json:"url,omitempty"`  // of the engine
	Name  string `json:"name,omitempty"` // of the round's schema, database or prefix
}

// stores are the values of -store.
var stores = []string{"boltstore", "pebblestore", "sqlstore", "redis", "postgres", "mysql"}

// shared reports whether several processes can use the store.
func (p place) shared() bool { return p.Store != "boltstore" && p.Store != "pebblestore" }

// inFile reports whether a transaction holds the lock of the whole file.
func (p place) inFile() bool { return p.Store == "boltstore" || p.Store == "sqlstore" }

// announces reports whether there is an outbox for the store.
func (p place) announces() bool { return p.Store == "boltstore" || p.Store == "postgres" }

// transactional reports whether the store has transactions.
func (p place) transactional() bool { return p.Store != "pebblestore" && p.Store != "redis" }

// modes returns the modes that the store can have.
func (p place) modes() []mode {
	return slices.DeleteFunc(slices.Clone(modes), func(m mode) bool { return m.transaction && !p.transactional() })
}

// openLimit is shorter than the patience of the parent, which waits for the process.
const openLimit = 15 * time.Second

// open opens a store. It retries while the engine is down.
func (p place) open(ctx context.Context, dir, who string) (*site, error) {
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	for {
		s, err := p.try(ctx, dir, who)
		if err == nil || !errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil {
			return s, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (p place) try(ctx context.Context, dir, who string) (*site, error) {
	switch p.Store {
	case "boltstore":
		st, err := boltstore.Open(filepath.Join(dir, who+".redo"))
		if err != nil {
			return nil, err
		}
		q, err := boltoutbox.New(ctx, st)
		if err != nil {
			return nil, errors.Join(err, st.Close())
		}
		return newSite(st, boltBooks(st), q, q.Enqueue), nil
	case "pebblestore":
		st, err := pebblestore.Open(filepath.Join(dir, who+".pebble"))
		return &site{records: st}, err
	case "sqlstore":
		path := filepath.Join(dir, who+".db")
		st, err := sqlitestore.Open(ctx, path)
		if err != nil {
			return nil, err
		}
		db, err := sql.Open("sqlite", path)
		if err != nil {
			return nil, errors.Join(err, st.Close())
		}
		return newSite(st, sqlBooks(db), nil, nil), nil
	case "redis":
		st, err := redisstore.Open(ctx, p.URL, redisstore.WithPrefix(p.Name+who))
		return &site{records: st}, err
	case "postgres":
		return p.onPostgres(ctx, who)
	case "mysql":
		db, err := sql.Open("mysql", p.URL+p.Name+mysqlOptions)
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(16)
		st, err := mysqlstore.New(db, mysqlstore.WithTable(who))
		if err != nil {
			return nil, err
		}
		return newSite(st, sqlBooks(db), nil, nil), nil
	}
	return nil, fmt.Errorf("there is no store %q", p.Store)
}

const mysqlOptions = "?interpolateParams=true&timeout=2s"

func (p place) onPostgres(ctx context.Context, who string) (*site, error) {
	cfg, err := pgxpool.ParseConfig(p.URL)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns, cfg.ConnConfig.ConnectTimeout = 16, 2*time.Second
	cfg.ConnConfig.RuntimeParams["search_path"] = p.Name // where the ledger is
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), cfg)
	if err != nil {
		return nil, err
	}
	st, err := pgstore.New(pool, pgstore.WithSchema(p.Name), pgstore.WithTable(who))
	if err != nil {
		return nil, err
	}
	q, err := pgoutbox.New(pool, pgoutbox.WithSchema(p.Name))
	if err != nil {
		return nil, err
	}
	return newSite(st, pgBooks(pool), q, q.Enqueue), nil
}
