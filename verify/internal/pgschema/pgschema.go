// Package pgschema creates schemas for a run in Postgres, and drops them when it ends.
package pgschema

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// A Database holds the schemas of a run.
type Database struct {
	Pool    *pgxpool.Pool
	schemas []string
}

// Open connects to the Postgres at url. If none responds, the error advises to start one or otherwise to do instead.
func Open(ctx context.Context, url, instead string) (*Database, error) {
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
		return nil, fmt.Errorf("no Postgres responds at %s:%d; start one (pg_ctlcluster, or docker run --rm -p "+
			"5432:5432 -e POSTGRES_HOST_AUTH_METHOD=trust postgres), or %s: %w",
			cfg.ConnConfig.Host, cfg.ConnConfig.Port, instead, err)
	}
	return &Database{Pool: pool}, nil
}

// Create creates a schema with a random name that starts with prefix. It executes the statements that tables returns
// for that name. Close drops the schema.
func (d *Database) Create(
	ctx context.Context, prefix string, tables func(schema string) (string, error),
) (schema string, err error) {
	var b [6]byte
	_, _ = rand.Read(b[:]) // it never fails
	schema = prefix + hex.EncodeToString(b[:])
	statements, err := tables(schema)
	if err != nil {
		return "", err
	}
	d.schemas = append(d.schemas, schema)
	_, err = d.Pool.Exec(ctx, "CREATE SCHEMA "+schema+";"+statements)
	return schema, err
}

// Close drops the schemas and disconnects.
func (d *Database) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, schema := range d.schemas {
		_, _ = d.Pool.Exec(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
	}
	d.Pool.Close()
}
