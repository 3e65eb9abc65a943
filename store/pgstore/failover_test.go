package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/store/pgstore/pgtest"
)

// Callers work in both modes while the primary dies and its synchronous standby is promoted. Acknowledged writes
// are there afterwards. A record and its effect exist together or not at all. A caller that keeps retrying
// succeeds again.
func TestFailoverToASynchronousStandbyLosesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("starts new servers")
	}
	t.Parallel()
	primary := pgtest.NewServer(t)
	p := place{url: primary.URL, schema: "public", conns: 8}
	p.open(t)
	pgtest.Exec(t, pgtest.Connect(t, p.url), "CREATE TABLE effects (key text NOT NULL)")
	standby := pgtest.NewStandby(t, primary)
	primary.Configure(t, "synchronous_standby_names", "*")
	primary.Until(t, "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')")
	p.url = both(primary, standby)
	w := work{st: p.open(t)}
	after := make(chan struct{})
	const callers = 16
	var errs [callers]error
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { errs[i] = w.until(t.Context(), i, after) })
	}
	until(t, "the callers are at work", func() bool { return w.done.Load() > 200 })
	require.NoError(t, primary.Kill())
	until(t, "calls fail", func() bool { return w.failed.Load() > callers })
	standby.Promote(t)
	before := w.done.Load()
	until(t, "calls succeed again, by the same store", func() bool { return w.done.Load() > before+callers })
	close(after)
	wg.Wait()
	require.NoError(t, errors.Join(errs[:]...))

	p.url = standby.URL
	effects := map[string]int{}
	rows, err := pgtest.Connect(t, p.url).Query(t.Context(), "SELECT key, count(*) FROM effects GROUP BY key")
	require.NoError(t, err)
	var key string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&key, &n}, func() error { effects[key] = n; return nil })
	require.NoError(t, err)
	st := p.open(t)
	kept, unknown := 0, 0
	w.keys.Range(func(k, acknowledged any) bool {
		key := k.(string)
		r, err := st.Find(t.Context(), claim(key).ID)
		switch {
		case acknowledged.(bool):
			require.NoError(t, err, key)
			require.Equal(t, store.StateComplete, r.State, key)
			require.Equal(t, key, string(r.Result))
			kept++
		case !errors.Is(err, store.ErrNotFound):
			require.NoError(t, err, key)
			unknown++
		}
		if key[:2] == "tx" {
			made := 0
			if err == nil {
				made = 1
			}
			require.Equal(t, made, effects[key], key)
		}
		return true
	})
	t.Logf(
		"%d acknowledged outcomes are there, and %d of %d calls that failed have left a record",
		kept,
		unknown,
		w.failed.Load(),
	)
}

// Work is done on a new key each time, in two steps and in one transaction by turns.
type work struct {
	st           *pgstore.Store
	keys         sync.Map // key → whether its outcome was acknowledged
	done, failed atomic.Int64
}

// until works until the channel is closed. An error that the contract doesn't allow for ends it.
func (w *work) until(ctx context.Context, caller int, end <-chan struct{}) error {
	for n := 0; ; n++ {
		do, key := w.twoSteps, fmt.Sprintf("steps %d %d", caller, n)
		if n%2 == 1 {
			do, key = w.oneTransaction, fmt.Sprintf("tx %d %d", caller, n)
		}
		err := do(ctx, key)
		w.keys.Store(key, err == nil)
		switch {
		case err == nil:
			w.done.Add(1)
		case errors.Is(err, store.ErrUnknown), errors.Is(err, store.ErrUnavailable):
			w.failed.Add(1)
		default:
			return err
		}
		select {
		case <-end:
			return nil
		default:
		}
	}
}

func (w *work) twoSteps(ctx context.Context, key string) error {
	g, err := w.st.Reserve(ctx, claim(key))
	if err != nil {
		return err
	}
	if g.Verdict != store.Acquired {
		return fmt.Errorf("the verdict on a new key is %v", g.Verdict)
	}
	return w.st.Complete(ctx, g.Lease, store.Outcome{Result: []byte(key)})
}

func (w *work) oneTransaction(ctx context.Context, key string) error {
	tx, g, err := w.st.Begin(ctx, claim(key))
	if err != nil {
		return err
	}
	if tx == nil {
		return fmt.Errorf("the verdict on a new key is %v", g.Verdict)
	}
	if _, err := tx.Tx().Exec(ctx, "INSERT INTO effects VALUES ($1)", key); err != nil {
		_ = tx.Rollback(ctx) // the connection is lost
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return tx.Commit(ctx, store.Outcome{Result: []byte(key)})
}

// Writes that a standby had not got when it was promoted are lost, acknowledged or not. The rules below still
// hold.
func wasBehind(t *testing.T, p place, before *pgstore.Store, primary, standby *pgtest.Server) {
	completed := reserve(t, before, claim("completed"), store.Acquired)
	kept := reserve(t, before, claim("kept"), store.Acquired)
	require.NoError(t, before.Complete(t.Context(), kept.Lease, store.Outcome{Result: []byte("kept")}))
	c := claim("taken over")
	c.Lease = time.Microsecond
	owner := reserve(t, before, c, store.Acquired)
	standby.CatchUp(t, primary)
	standby.CutOff(t)

	// All of this is acknowledged.
	// The place in the sequence that the standby will draw first is drawn for the same key here.
	var next int64
	require.NoError(
		t,
		pgtest.Connect(t, standby.URL).
			QueryRow(t.Context(), "SELECT last_value + 1 FROM redo_records_fence").
			Scan(&next),
	)
	lost := reserve(t, before, claim("reserved"), store.Acquired)
	for drawn(lost) < next {
		require.NoError(t, before.Release(t.Context(), lost.Lease))
		lost = reserve(t, before, claim("reserved"), store.Acquired)
	}
	require.Equal(t, next, drawn(lost))
	require.NoError(t, before.Complete(t.Context(), completed.Lease, store.Outcome{Result: []byte("lost")}))
	successor := reserve(t, before, c, store.TakenOver)
	tx, _ := begin(t, before, claim("with its effect"), store.Acquired)
	effect(t, tx.Tx(), "with its effect")
	require.NoError(t, tx.Commit(t.Context(), store.Outcome{Result: []byte("lost")}))
	require.NoError(t, primary.Kill())
	standby.Promote(t)

	p.url = standby.URL
	after := p.open(t)
	found := reserve(t, after, claim("reserved"), store.Acquired)
	t.Run("a lost reservation lets a second owner in", func(t *testing.T) {
		require.Equal(t, drawn(lost), drawn(found), "the place in the sequence that was drawn in the lost history too")
	})
	t.Run("whose record a lease of the lost history doesn't fit", func(t *testing.T) {
		require.NotEqual(t, lost.Lease, found.Lease) // by chance they are the same once in 65,536 runs
		for _, l := range []store.Lease{lost.Lease, successor.Lease} {
			require.ErrorIs(t, after.Extend(t.Context(), l, long, nil), store.ErrLost)
			require.ErrorIs(t, after.Complete(t.Context(), l, store.Outcome{}), store.ErrLost)
			require.ErrorIs(t, after.Release(t.Context(), l), store.ErrLost)
		}
		require.NoError(t, after.Complete(t.Context(), found.Lease, store.Outcome{}))
	})
	t.Run("a lost completion leaves its record pending", func(t *testing.T) {
		require.Equal(t, store.StatePending, find(t, after, "completed").State)
		require.NoError(t, after.Complete(t.Context(), completed.Lease, store.Outcome{}))
	})
	t.Run("a lost take-over leaves the earlier owner in its place", func(t *testing.T) {
		require.Equal(t, owner.Lease, find(t, after, "taken over").Lease())
		require.NoError(t, after.Complete(t.Context(), owner.Lease, store.Outcome{}))
	})
	t.Run("a lost transaction is lost whole", func(t *testing.T) {
		absent(t, after, "with its effect")
		p.requireEffects(t, "with its effect", 0)
	})
	t.Run("writes that the standby had got are kept", func(t *testing.T) {
		require.Equal(t, []byte("kept"), find(t, after, "kept").Result)
	})
}

// drawn is the part of a fence that is its place in the sequence.
func drawn(g store.Grant) int64 { return int64(g.Lease.Fence >> 16) }
