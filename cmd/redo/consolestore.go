package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/console"
	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/store/pgstore"
)

// showing serves a console with the options that show the contents of a store.
type showing func([]console.Option) error

// open opens a store, and runs f.
func (c *consoling) open(ctx context.Context, name string, opts []redo.Option, f showing) error {
	if isDatabase(name) {
		return c.openDatabase(ctx, name, opts, f)
	}
	return c.place.withStore(ctx, name, func(st recordStore) error {
		queues, err := queuesOf(ctx, st, c.schema)
		if err != nil {
			return failed(err)
		}
		return c.showStore(st, opts, sourcesOf(queues), f)
	})
}

// showStore adds the client and the inbox of a store.
func (c *consoling) showStore(st console.Store, opts []redo.Option, sources []console.Option, f showing) error {
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

// sourcesOf returns the options that show queues.
func sourcesOf(queues []namedQueue) (sources []console.Option) {
	for _, q := range queues {
		sources = append(sources, console.Events(q.name, q.queue))
	}
	return sources
}

// openDatabase opens the tables that exist in Postgres. If none exists, the error names them all.
func (c *consoling) openDatabase(ctx context.Context, url string, opts []redo.Option, f showing) error {
	if err := c.check(postgres); err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return failed(err)
	}
	defer pool.Close()
	if err := reach(ctx, url, pool.Ping); err != nil {
		return failed(err)
	}
	queues, missing, err := tableQueues(ctx, pool, c.schema)
	if err != nil {
		return err
	}
	sources := sourcesOf(queues)
	st, err := pgstore.New(pool, c.postgresOptions()...)
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
	return c.showStore(st, opts, sources, f)
}
