package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redo-go/redo/benchmarks/contest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore"
)

// Names of the contestants beside an engine: the store, and the engine given the same statements or scripts by its
// driver with nothing in between.
const (
	byEngine = "the same by the driver"
	byRedo   = "redo"
)

// engineCallers is the number of concurrent callers of an engine.
const engineCallers = 64

// postgresScenario compares first runs, reserve and complete, or replays. The pools are as large as is best for each.
func postgresScenario(replay bool) contest.Scenario {
	a := &postgresArena{conns: 32}
	s := contest.Scenario{
		Name:  "postgres-first",
		Title: "pgstore: reserve and complete, 64 callers on a pool of 32",
		Ready: a.open, Done: a.close, Reference: byEngine, Callers: engineCallers,
		Contestants: []contest.Contestant{
			{Name: byEngine, Open: calls(a.firstByDriver)},
			{Name: byRedo, Open: calls(a.firstByRedo)},
		},
	}
	if replay {
		a.conns = 16
		s.Name, s.Title = "postgres-replay", "pgstore: the replay of a complete record, 64 callers on a pool of 16"
		s.Contestants = []contest.Contestant{
			{Name: byEngine, Open: calls(a.replayByDriver)},
			{Name: byRedo, Open: calls(a.replayByRedo)},
		}
	}
	return s
}

// A postgresArena is a new schema, and a pool that is connected and warm.
type postgresArena struct {
	conns  int32
	schema string
	pool   *pgxpool.Pool // for the store as for the driver: both find the same statements prepared
	store  *pgstore.Store
	texts  recording
	made   atomic.Uint64
}

func (a *postgresArena) open() (err error) {
	ctx, cancel := preparing()
	defer cancel()
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	a.schema = label()
	if a.pool, err = newPool(ctx, a.conns, nil); err != nil {
		return err
	}
	if _, err = a.pool.Exec(ctx, "CREATE SCHEMA "+a.schema); err != nil {
		return err
	}
	if err = a.record(ctx); err != nil {
		return err
	}
	if a.store, err = pgstore.New(a.pool, pgstore.WithSchema(a.schema)); err != nil {
		return err
	}
	for _, op := range []func(context.Context) error{a.firstByDriver, a.firstByRedo, a.replayByDriver, a.replayByRedo} {
		if err = a.warm(ctx, op); err != nil {
			return err
		}
	}
	return nil
}

// newPool connects. If it can't, its error wraps contest.ErrNoEngine.
func newPool(ctx context.Context, conns int32, tracer pgx.QueryTracer) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(postgresURL())
	if err != nil {
		return nil, absent("Postgres", "REDO_TEST_POSTGRES", err)
	}
	cfg.MaxConns, cfg.ConnConfig.Tracer, cfg.ConnConfig.ConnectTimeout = conns, tracer, 5*time.Second
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, absent("Postgres", "REDO_TEST_POSTGRES", err)
	}
	return pool, nil
}

// record makes the table and records the statements that the store sends. The driver then sends the same ones.
func (a *postgresArena) record(ctx context.Context) error {
	pool, err := newPool(ctx, 1, &a.texts)
	if err != nil {
		return err
	}
	defer pool.Close()
	st, err := pgstore.New(pool, pgstore.WithSchema(a.schema))
	if err != nil {
		return err
	}
	if err := st.Migrate(ctx); err != nil {
		return err
	}
	// once a second a Reserve deletes expired records too
	if _, err := st.Reserve(ctx, engineClaim("warm")); err != nil {
		return err
	}
	a.texts.sent = nil
	g, err := st.Reserve(ctx, engineClaim(replayed))
	if err != nil {
		return err
	}
	if err := st.Complete(ctx, g.Lease, store.Outcome{Result: result}); err != nil {
		return err
	}
	return a.texts.check()
}

// warm gives every connection of a pool its statements.
func (a *postgresArena) warm(ctx context.Context, op func(context.Context) error) error {
	failures := make([]error, 4*a.conns)
	var all sync.WaitGroup
	for i := range failures {
		all.Go(func() { failures[i] = op(ctx) })
	}
	all.Wait()
	return errors.Join(failures...)
}

func (a *postgresArena) close() (err error) {
	if a.pool == nil {
		return nil
	}
	ctx, cancel := preparing()
	defer cancel()
	_, err = a.pool.Exec(ctx, "DROP SCHEMA IF EXISTS "+a.schema+" CASCADE")
	a.pool.Close()
	a.pool = nil
	return err
}

func (a *postgresArena) firstByRedo(ctx context.Context) error {
	return firstRun(ctx, a.store, timeKey(a.made.Add(1)))
}

func (a *postgresArena) replayByRedo(ctx context.Context) error {
	return replayRun(ctx, a.store, replayed)
}

func (a *postgresArena) firstByDriver(ctx context.Context) error {
	i := a.made.Add(1)
	key := []byte(timeKey(i))
	reserve, complete := a.texts.sent[0], a.texts.sent[1]
	got, err := a.reserveByDriver(ctx, reserve, reserve.argsFor(key, int64(i*0x9E3779B97F4A7C15)))
	if err != nil {
		return err
	}
	args := slices.Clone(complete.args)
	args[keyArg], args[fenceArg] = key, int64(got.fence)
	tag, err := a.pool.Exec(ctx, complete.text, args...)
	if err == nil && tag.RowsAffected() != 1 {
		err = errors.New("benchmarks: the record was not completed")
	}
	return err
}

func (a *postgresArena) replayByDriver(ctx context.Context) error {
	reserve := a.texts.sent[0]
	got, err := a.reserveByDriver(ctx, reserve, reserve.args)
	if err == nil && len(got.result) != len(result) {
		err = fmt.Errorf("benchmarks: the result has %d bytes", len(got.result))
	}
	return err
}
