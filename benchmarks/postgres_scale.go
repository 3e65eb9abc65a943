package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redo-go/redo/benchmarks/contest"
	"github.com/redo-go/redo/store/pgstore"
)

// Names of the contestants that differ in how much their table holds, as the targets use them.
const (
	bySmall = "few records"
	byLarge = "many records"
)

// few is the number of records in the smaller table.
const few = 10_000

// postgresScales are the store's calls on a table of few records and on one of so many. All three share the tables.
func postgresScales(many int) []contest.Scenario {
	a := &scaleArena{sizes: map[string]int{bySmall: few, byLarge: many}}
	pair := func(op func(*scaledTable) contest.Runner) []contest.Contestant {
		return []contest.Contestant{
			{Name: bySmall, Open: a.runner(bySmall, op)}, {Name: byLarge, Open: a.runner(byLarge, op)},
		}
	}
	of := func(name, title string, callers int, contestants []contest.Contestant) contest.Scenario {
		return contest.Scenario{
			Name:  name,
			Title: fmt.Sprintf("pgstore with %d and with %d records: %s", few, many, title),
			Ready: a.open, End: a.drop, Reference: bySmall, Callers: callers, Contestants: contestants, Slow: true,
		}
	}
	return []contest.Scenario{
		of("scale-postgres-first", "reserve and complete, 64 callers", engineCallers, pair((*scaledTable).first)),
		of("scale-postgres-replay", "replays of any of the records, 64 callers", engineCallers,
			pair((*scaledTable).replay)),
		of("scale-postgres-purge", "the purge of 1,000 expired records, one caller", 1, pair((*scaledTable).purge)),
	}
}

// A scaleArena is a table of each size. It is filled once, which takes minutes, and stays for all scenarios.
type scaleArena struct {
	sizes  map[string]int
	pool   *pgxpool.Pool
	tables map[string]*scaledTable
}

func (a *scaleArena) open() (err error) {
	if a.pool != nil {
		return nil
	}
	ctx, cancel := preparing()
	defer cancel()
	defer func() {
		if err != nil {
			err = errors.Join(err, a.drop())
		}
	}()
	if a.pool, err = newPool(ctx, 32, nil); err != nil {
		return err
	}
	a.tables = map[string]*scaledTable{}
	for name, size := range a.sizes {
		t := &scaledTable{schema: label(), size: size}
		a.tables[name] = t
		if err = t.fill(ctx, a.pool); err != nil {
			return err
		}
	}
	return nil
}

func (a *scaleArena) drop() error {
	if a.pool == nil {
		return nil
	}
	ctx, cancel := preparing()
	defer cancel()
	var failures []error
	for _, t := range a.tables {
		_, err := a.pool.Exec(ctx, "DROP SCHEMA IF EXISTS "+t.schema+" CASCADE")
		failures = append(failures, err)
	}
	a.pool.Close()
	a.pool = nil
	return errors.Join(failures...)
}

func (a *scaleArena) runner(size string, op func(*scaledTable) contest.Runner) func(string) (contest.Runner, error) {
	return func(string) (contest.Runner, error) { return op(a.tables[size]), nil }
}

// A scaledTable is a table that was filled with complete records.
type scaledTable struct {
	schema  string
	size    int
	pool    *pgxpool.Pool
	store   *pgstore.Store
	made    atomic.Uint64
	expired time.Time // of the last record that was made to be purged
}

// fill copies the records in, and leaves the table as autovacuum would.
func (t *scaledTable) fill(ctx context.Context, pool *pgxpool.Pool) (err error) {
	t.pool = pool
	if _, err = pool.Exec(ctx, "CREATE SCHEMA "+t.schema); err != nil {
		return err
	}
	if t.store, err = pgstore.New(pool, pgstore.WithSchema(t.schema)); err != nil {
		return err
	}
	if err = t.store.Migrate(ctx); err != nil {
		return err
	}
	now := time.Now()
	err = t.copy(ctx, t.size, func(i int) (string, time.Time) {
		return timeKey(uint64(i)), now.Add(24*time.Hour + time.Duration(i)*time.Microsecond)
	})
	if err != nil {
		return err
	}
	t.made.Store(uint64(t.size))
	t.expired = now.Add(-24 * time.Hour)
	if _, err = pool.Exec(ctx, "SELECT setval('"+t.schema+".redo_records_fence', $1)", int64(t.size)+1); err != nil {
		return err
	}
	_, err = pool.Exec(ctx, "VACUUM (FREEZE, ANALYZE) "+t.schema+".redo_records")
	return err
}

// copy puts complete records into the table.
func (t *scaledTable) copy(ctx context.Context, n int, of func(i int) (key string, expires time.Time)) error {
	columns := []string{"scope", "key", "fingerprint", "state", "result", "fence", "born", "created_at", "expires_at"}
	scope := []byte(engineClaim("").ID.Scope)
	_, err := t.pool.CopyFrom(ctx, pgx.Identifier{t.schema, "redo_records"}, columns,
		pgx.CopyFromSlice(n, func(i int) ([]any, error) {
			key, expires := of(i)
			at := pgtype.Timestamptz{Time: expires, Valid: true}
			made := pgtype.Timestamptz{Time: expires.Add(-24 * time.Hour), Valid: true}
			return []any{
				scope, []byte(key), fingerprint[:], int16(2), result, int64(i) + 1, int64(i) + 1, made, at,
			}, nil
		}))
	return err
}

func (t *scaledTable) first() contest.Runner {
	return contest.Concurrently(engineCallers, func(int) error {
		return firstRun(context.Background(), t.store, timeKey(t.made.Add(1)))
	}, nil)
}

func (t *scaledTable) replay() contest.Runner {
	return contest.Concurrently(engineCallers, func(int) error {
		return replayRun(context.Background(), t.store, timeKey(uint64(rand.IntN(t.size))))
	}, nil)
}

// purgedAtOnce is pgstore's batch.
const purgedAtOnce = 1000

func (t *scaledTable) purge() contest.Runner {
	r := contest.Serially(func(int) error {
		n, err := t.store.Purge(context.Background(), purgedAtOnce)
		if err == nil && n != purgedAtOnce {
			err = fmt.Errorf("benchmarks: %d records were purged, not %d", n, purgedAtOnce)
		}
		return err
	}, nil)
	r.Refill = func(n int) error {
		ctx, cancel := preparing()
		defer cancel()
		return t.copy(ctx, n*purgedAtOnce, func(int) (string, time.Time) {
			t.expired = t.expired.Add(time.Microsecond)
			return timeKey(t.made.Add(1)), t.expired
		})
	}
	return r
}
