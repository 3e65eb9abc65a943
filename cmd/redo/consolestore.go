package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/console"
	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox/boltoutbox"
	"github.com/redo-go/redo/outbox/pgoutbox"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/store/pgstore"
)

// showing serves a console with the options that show the contents of a store.
type showing func([]console.Option) error

// open opens a file or a database, and runs f.
func (c *consoling) open(ctx context.Context, name string, opts []redo.Option, f showing) error {
	if isDatabase(name) {
		return c.openDatabase(ctx, name, opts, f)
	}
	return withFile(name, func(st *boltstore.Store) error { return c.openFile(ctx, st, opts, f) })
}

// openFile opens the queues that exist in a file.
func (c *consoling) openFile(ctx context.Context, st *boltstore.Store, opts []redo.Option, f showing) error {
	var sources []console.Option
	for _, q := range []struct{ name, bucket string }{{"outbox", "redo-outbox"}, {"inbox", "redo-inbox"}} {
		exists := false
		err := st.View(ctx, func(tx *boltstore.Tx) error {
			exists = tx.Bucket([]byte(q.bucket)) != nil
			return nil
		})
		if err != nil {
			return failed(err)
		}
		if !exists {
			continue // boltoutbox would make one
		}
		events, err := boltoutbox.New(ctx, st, boltoutbox.WithBucket(q.bucket))
		if err != nil {
			return failed(err)
		}
		sources = append(sources, console.Events(q.name, events))
	}
	return c.withStore(st, opts, sources, f)
}

// withStore adds the client and the inbox of a store.
func (c *consoling) withStore(st console.Store, opts []redo.Option, sources []console.Option, f showing) error {
	client, err := redo.New(append([]redo.Option{redo.WithStore(st), redo.WithScope(c.scope)}, opts...)...)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // it returns nil
	in, err := inbox.New(st)
	if err != nil {
		return err
	}
	return f(append(sources, console.Operations(client), console.Letters(in), console.Records(st)))
}

// openDatabase opens the tables that exist in Postgres. If none exists, the error names them all.
func (c *consoling) openDatabase(ctx context.Context, url string, opts []redo.Option, f showing) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return failed(err)
	}
	defer pool.Close()
	var missing []error
	var sources []console.Option
	for _, table := range []struct{ name, table string }{{"outbox", "redo_outbox"}, {"inbox", "redo_inbox"}} {
		settings := []pgoutbox.Option{pgoutbox.WithTable(table.table)}
		if c.schema != "" {
			settings = append(settings, pgoutbox.WithSchema(c.schema))
		}
		q, err := pgoutbox.New(pool, settings...)
		if err != nil {
			return err
		}
		if err := q.Check(ctx); err != nil {
			missing = append(missing, err)
			continue
		}
		sources = append(sources, console.Events(table.name, q))
	}
	var settings []pgstore.Option
	if c.schema != "" {
		settings = append(settings, pgstore.WithSchema(c.schema))
	}
	st, err := pgstore.New(pool, settings...)
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }() // the pool is closed after it
	checked := st.Check(ctx)
	if checked != nil {
		missing = append(missing, checked)
	}
	if checked != nil && len(sources) == 0 {
		return failed(errors.Join(missing...))
	}
	for _, err := range missing { // a missing list would look like an empty one
		fmt.Fprintf(c.err, "redo console: not shown: %v\n", err)
	}
	if checked != nil {
		return f(sources)
	}
	return c.withStore(st, opts, sources, f)
}
