package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redo-go/redo/outbox/boltoutbox"
	"github.com/redo-go/redo/outbox/pgoutbox"
	"github.com/redo-go/redo/store/boltstore"
)

// A namedQueue is a queue with the name that pages and lists show.
type namedQueue struct {
	name string
	queue
}

// fileQueues opens the queues that exist in a file under their default names.
func fileQueues(ctx context.Context, st *boltstore.Store) (all []namedQueue, err error) {
	for _, q := range []struct{ name, bucket string }{{"outbox", "redo-outbox"}, {"inbox", "redo-inbox"}} {
		exists, err := hasBucket(ctx, st, q.bucket)
		if err != nil {
			return nil, err
		}
		if !exists {
			continue
		}
		events, err := boltoutbox.New(ctx, st, boltoutbox.WithBucket(q.bucket))
		if err != nil {
			return nil, err
		}
		all = append(all, namedQueue{q.name, events})
	}
	return all, nil
}

// hasBucket reports whether a file has a queue. boltoutbox would create a missing one.
func hasBucket(ctx context.Context, st *boltstore.Store, name string) (exists bool, err error) {
	err = st.View(ctx, func(tx *boltstore.Tx) error {
		exists = tx.Bucket([]byte(name)) != nil
		return nil
	})
	return exists, err
}

// tableQueues returns the queues that exist in a schema of Postgres under their default names. missing has an error for
// each of the others. err is an error of the schema's name.
func tableQueues(
	ctx context.Context, pool *pgxpool.Pool, schema string,
) (all []namedQueue, missing []error, err error) {
	for _, name := range []string{"outbox", "inbox"} {
		opts := []pgoutbox.Option{pgoutbox.WithTable("redo_" + name)}
		if schema != "" {
			opts = append(opts, pgoutbox.WithSchema(schema))
		}
		q, err := pgoutbox.New(pool, opts...)
		if err != nil {
			return nil, nil, err
		}
		if err := q.Check(ctx); err != nil {
			missing = append(missing, err)
			continue
		}
		all = append(all, namedQueue{name, q})
	}
	return all, missing, nil
}

// queuesOf opens the queues beside a store's records. Engines other than bbolt and Postgres have none.
func queuesOf(ctx context.Context, st recordStore, schema string) ([]namedQueue, error) {
	switch st := st.(type) {
	case *boltstore.Store:
		return fileQueues(ctx, st)
	case postgresStore:
		all, missing, err := tableQueues(ctx, st.pool, schema)
		for _, absent := range missing {
			if !errors.Is(absent, pgoutbox.ErrNoTable) {
				err = errors.Join(err, absent)
			}
		}
		return all, err
	}
	return nil, nil
}
