package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A database is the server that all contestants use.
type database struct{ url string }

// A place is a schema with a pool whose search path it is.
type place struct {
	url, schema string
	pool        *pgxpool.Pool
}

func newDatabase(ctx context.Context, url string) (database, error) {
	if url == "" {
		return database{}, fmt.Errorf("no Postgres: give -url or set REDO_TEST_POSTGRES")
	}
	return database{url}, nil
}

func (db database) describe(ctx context.Context) (version, sync string, err error) {
	conn, err := pgx.Connect(ctx, db.url)
	if err != nil {
		return "", "", err
	}
	defer func() { _ = conn.Close(ctx) }()
	err = conn.QueryRow(ctx, "SELECT 'Postgres ' || current_setting('server_version') || ', fsync ' || "+
		"current_setting('fsync'), current_setting('synchronous_commit')").Scan(&version, &sync)
	return version, sync, err
}

// with calls f with a new schema, and drops it afterwards.
func (db database) with(ctx context.Context, f func(place) (map[string]float64, error)) (map[string]float64, error) {
	p := place{url: db.url, schema: fmt.Sprintf("redo_bench_%d", os.Getpid())}
	cfg, err := pgxpool.ParseConfig(db.url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = 40
	cfg.ConnConfig.RuntimeParams["search_path"] = p.schema
	if p.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, err
	}
	defer p.pool.Close()
	if _, err := p.pool.Exec(ctx, "DROP SCHEMA IF EXISTS "+p.schema+" CASCADE; CREATE SCHEMA "+p.schema); err != nil {
		return nil, err
	}
	defer func() { _, _ = p.pool.Exec(ctx, "DROP SCHEMA "+p.schema+" CASCADE; CHECKPOINT") }()
	orders := "CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea)"
	if _, err := p.pool.Exec(ctx, orders); err != nil {
		return nil, err
	}
	return f(p)
}

// spread prints the median, and the least and the greatest.
func spread(figures []float64) string {
	if len(figures) == 0 {
		return "-"
	}
	slices.Sort(figures)
	n := len(figures)
	median := (figures[n/2] + figures[(n-1)/2]) / 2
	format := "%.2f (%.2f–%.2f)"
	if median >= 100 {
		format = "%.0f (%.0f–%.0f)"
	}
	return fmt.Sprintf(format, median, figures[0], figures[n-1])
}
