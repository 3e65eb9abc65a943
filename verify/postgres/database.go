package main

import (
	"context"

	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/verify/internal/pgschema"
)

// A database holds the schema of each campaign.
type database struct{ *pgschema.Database }

func openDatabase(ctx context.Context, url string) (*database, error) {
	d, err := pgschema.Open(ctx, url, "name one with -postgres")
	if err != nil {
		return nil, err
	}
	return &database{d}, nil
}

// tables creates the service's tables and redo's in a new schema. The ledger has no unique key, so that it can show a
// second effect.
func (d *database) tables(ctx context.Context) (schema string, err error) {
	return d.Create(ctx, "redo_example_", func(schema string) (string, error) {
		records, err := pgstore.Migration(pgstore.WithSchema(schema))
		ledger := "CREATE TABLE " + schema + ".ledger (" +
			"id bigserial PRIMARY KEY, key text NOT NULL, charge text NOT NULL, amount int NOT NULL);"
		return ledger + "CREATE TABLE " + schema + ".taken_over (key text NOT NULL);" + records, err
	})
}

// counts returns how many rows each key has in a table.
func (d *database) counts(ctx context.Context, schema, table string) (map[string]int, error) {
	rows, err := d.Pool.Query(ctx, "SELECT key, count(*) FROM "+schema+"."+table+" GROUP BY key")
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
