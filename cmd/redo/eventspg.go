package main

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redo-go/redo/outbox/pgoutbox"
)

// withTable opens a queue in Postgres. A missing table is an error, because only the service creates the table.
func (e *events) withTable(ctx context.Context, url string, f func(queue) error) error {
	table := e.queue
	if table == "" {
		table = e.table
	}
	opts := []pgoutbox.Option{pgoutbox.WithTable(table)}
	if e.schema != "" {
		opts = append(opts, pgoutbox.WithSchema(e.schema))
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return failed(err)
	}
	defer pool.Close()
	q, err := pgoutbox.New(pool, opts...)
	if err != nil {
		return err
	}
	if err := reach(ctx, url, q.Check); err != nil {
		return failed(err)
	}
	return f(q)
}
