package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"time"

	"github.com/redo-go/redo/benchmarks/contest"
	"github.com/redo-go/redo/store"
)

// Where the engines are looked for when the environment does not say.
const (
	redisHere    = "redis://127.0.0.1:6379/0"
	postgresHere = "postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable"
)

func redisURL() string    { return cmp.Or(os.Getenv("REDO_TEST_REDIS"), redisHere) }
func postgresURL() string { return cmp.Or(os.Getenv("REDO_TEST_POSTGRES"), postgresHere) }

// calls makes a contestant of an operation on an arena.
func calls(op func(context.Context) error) func(string) (contest.Runner, error) {
	return func(string) (contest.Runner, error) {
		return contest.Concurrently(engineCallers, func(int) error { return op(context.Background()) }, nil), nil
	}
}

// absent returns an error that names the place where an engine was looked for. URLs may hold passwords, so the
// variable is named in their place.
func absent(engine, variable string, err error) error {
	where := "at the URL in " + variable
	if os.Getenv(variable) == "" {
		where = "on this machine; " + variable + " may name another"
	}
	return fmt.Errorf("%w: %s does not respond %s: %w", contest.ErrNoEngine, engine, where, err)
}

// patience bounds the work around the measurements: to connect, to fill the tables and to drop them.
const patience = 30 * time.Minute

func preparing() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}

// label makes names that no other run uses.
func label() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // it never fails
	return "redo_bench_" + hex.EncodeToString(b[:])
}

// timeKey is a key as TimeOrderedKeys makes them, UUIDv7: its first 48 bits grow with i, the others are spread. So each
// engine sees the keys in the order in which it would on a real day.
func timeKey(i uint64) string {
	spread := (i + 1) * 0x9E3779B97F4A7C15
	return fmt.Sprintf("%08x-%04x-7%03x-%04x-%012x",
		0x0193a5c8+i>>28, i>>12&0xffff, i&0xfff, 0x8000|spread>>50, spread&0xffffffffffff)
}

// replayed is the key of the record that all replays are of.
const replayed = "a settled record"

func engineClaim(key string) store.Claim {
	return store.Claim{
		ID:          store.ID{Scope: "POST /v1/refunds", Key: key},
		Fingerprint: fingerprint,
		Lease:       30 * time.Second,
		Retention:   24 * time.Hour,
	}
}

// firstRun reserves a new key and completes it.
func firstRun(ctx context.Context, st store.Store, key string) error {
	g, err := st.Reserve(ctx, engineClaim(key))
	if err != nil {
		return err
	}
	if g.Verdict != store.Acquired {
		return fmt.Errorf("benchmarks: the verdict is %v", g.Verdict)
	}
	return st.Complete(ctx, g.Lease, store.Outcome{Result: result})
}

// replayRun reserves the key of a complete record.
func replayRun(ctx context.Context, st store.Store, key string) error {
	g, err := st.Reserve(ctx, engineClaim(key))
	if err == nil && (g.Verdict != store.Complete || len(g.Record.Result) != len(result)) {
		err = fmt.Errorf("benchmarks: the verdict is %v with %d bytes", g.Verdict, len(g.Record.Result))
	}
	return err
}
