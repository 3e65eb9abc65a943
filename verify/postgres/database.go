package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redo-go/redo/store/pgstore"
)

// A database is the schema of a run.
type database struct {
	pool    *pgxpool.Pool
	schemas []string
}

func openDatabase(ctx context.Context, url string) (*database, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns, cfg.ConnConfig.ConnectTimeout = 4, 5*time.Second
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("no Postgres answers at %s:%d; start one (pg_ctlcluster, or docker run --rm -p 5432:5432 "+
			"-e POSTGRES_HOST_AUTH_METHOD=trust postgres) or name one with -postgres: %w", cfg.ConnConfig.Host, cfg.ConnConfig.Port, err)
	}
	return &database{pool: pool}, nil
}

// tables makes the service's tables and redo's in a schema of their own. The ledger notes keys and refuses none, so
// that it can bear witness.
func (d *database) tables(ctx context.Context) (schema string, err error) {
	var b [6]byte
	_, _ = rand.Read(b[:]) // it never fails
	schema = "redo_example_" + hex.EncodeToString(b[:])
	d.schemas = append(d.schemas, schema)
	records, err := pgstore.Migration(pgstore.WithSchema(schema))
	if err != nil {
		return "", err
	}
	_, err = d.pool.Exec(ctx, "CREATE SCHEMA "+schema+";"+
		"CREATE TABLE "+schema+".ledger (id bigserial PRIMARY KEY, key text NOT NULL, charge text NOT NULL, amount int NOT NULL);"+
		"CREATE TABLE "+schema+".taken_over (key text NOT NULL);"+records)
	return schema, err
}

// counts returns how many rows each key has in a table.
func (d *database) counts(ctx context.Context, schema, table string) (map[string]int, error) {
	rows, err := d.pool.Query(ctx, "SELECT key, count(*) FROM "+schema+"."+table+" GROUP BY key")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	of := map[string]int{}
	for rows.Next() {
		var key string
		var n int
		if err := rows.Scan(&key, &n); err != nil {
			return nil, err
		}
		of[key] = n
	}
	return of, rows.Err()
}

func (d *database) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, schema := range d.schemas {
		_, _ = d.pool.Exec(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
	}
	d.pool.Close()
}
