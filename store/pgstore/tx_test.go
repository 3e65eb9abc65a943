package pgstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/store/pgstore/pgtest"
)

func begin[T any](t testing.TB, st store.TxStore[T], c store.Claim, want store.Verdict) (store.Tx[T], store.Grant) {
	t.Helper()
	tx, g, err := st.Begin(bounded(t), c)
	require.NoError(t, err)
	require.Equal(t, want, g.Verdict)
	require.Equal(t, want.Owned(), tx != nil)
	if tx != nil {
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	}
	return tx, g
}

func other(c store.Claim) store.Claim {
	c.Fingerprint = store.Raw("POST", "/refunds", "", []byte("another body"))
	return c
}

// idle waits until no connection of the pool is in use: a transaction that was not handed out is rolled back later.
func idle(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	until(t, "every connection is back", func() bool { return pool.Stat().AcquiredConns() == 0 })
}

func absent(t testing.TB, st store.Store, key string) {
	t.Helper()
	_, err := st.Find(context.Background(), claim(key).ID)
	require.ErrorIs(t, err, store.ErrNotFound)
}

// newTxPlace is a place with a table for effects and a wire under its connections.
func newTxPlace(t testing.TB) (place, *wire) {
	p, w := newPlace(t), &wire{}
	p.effects(t)
	p.change = append(p.change, w.under)
	return p, w
}

func effect(t testing.TB, tx pgx.Tx, key string) {
	t.Helper()
	require.NoError(t, pgxWrite(context.Background(), tx, "INSERT INTO effects VALUES ($1)", key))
}

func (p place) requireEffects(t testing.TB, key string, want int) {
	t.Helper()
	n, err := p.written(context.Background(), key)
	require.NoError(t, err)
	require.Equal(t, want, n)
}

// With one lock alone, a Reserve of another store would wait for a second before it finds the ID in flight.
func TestOpenTransactionHoldsTwoLocks(t *testing.T) {
	p, _ := newTxPlace(t)
	st := p.open(t)
	reserve(t, st, unleased("pending"), store.Acquired)
	for key, want := range map[string]store.Verdict{"new": store.Acquired, "pending": store.TakenOver} {
		tx, _ := begin(t, st, claim(key), want)
		require.Len(t, locksHeld(t, tx.Tx()), 2)
		require.NoError(t, tx.Rollback(t.Context()))
	}
}

// locksHeld returns the advisory locks of a transaction.
func locksHeld(t testing.TB, tx pgx.Tx) []int64 {
	rows, err := tx.Query(t.Context(), `SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks
		WHERE locktype = 'advisory' AND pid = pg_backend_pid()`)
	require.NoError(t, err)
	locks, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	require.NoError(t, err)
	return locks
}

// The counts are those of the package comment.
func TestRoundTripsOfATransaction(t *testing.T) {
	p, w := newTxPlace(t)
	p.conns = 1
	away := p
	away.change = nil
	t.Run("pgx", func(t *testing.T) {
		roundTrips(t, w, p.open(t), away.open(t),
			map[string]int64{"begin": 1, "take over": 2, "commit": 1, "discard": 2, "replay": 2, "held elsewhere": 2})
	})
	t.Run("database/sql", func(t *testing.T) {
		roundTrips(t, w, p.openSQL(t), away.open(t),
			map[string]int64{"begin": 2, "take over": 3, "commit": 2, "discard": 3, "replay": 3, "held elsewhere": 3})
	})
}

// roundTrips counts those of a connection. The caller of a replay does not wait for the last one, which is the
// rollback.
func roundTrips[T any](t *testing.T, w *wire, st store.TxStore[T], away store.TxStore[pgx.Tx], want map[string]int64) {
	want["in flight"], want["mismatch"], want["another held elsewhere"] = want["replay"], want["replay"],
		want["held elsewhere"]
	key := func(round int, what string) string { return fmt.Sprint(t.Name(), round, what) }
	for round := range 2 { // the first prepares the statements
		got := map[string]int64{}
		count := func(what string, f func()) {
			before := w.trips.Load()
			f()
			if round == 1 { // the last round trip may come after f has returned
				until(t, what, func() bool { return w.trips.Load() >= before+want[what] })
			} else if what != "begin" && what != "take over" {
				_, _ = st.Find(t.Context(), claim("quiet").ID) // waits for the only connection
			}
			got[what] = w.trips.Load() - before
		}
		var tx store.Tx[T]
		c := claim(key(round, "k"))
		count("begin", func() { tx, _ = begin(t, st, c, store.Acquired) })
		require.Zero(t, w.count(func() {
			begin(t, st, c, store.InFlight)
			begin(t, st, other(c), store.InFlight)
			reserve(t, st, c, store.InFlight)
			reserve(t, st, other(c), store.InFlight)
		}), "duplicates of an open transaction of this store")
		count("commit", func() { require.NoError(t, tx.Commit(t.Context(), store.Outcome{})) })
		count("replay", func() { begin(t, st, c, store.Complete) })
		count("mismatch", func() { begin(t, st, other(c), store.Mismatch) })
		leased, free := claim(key(round, "leased")), unleased(key(round, "free"))
		reserve(t, away, leased, store.Acquired)
		count("in flight", func() { begin(t, st, leased, store.InFlight) })
		reserve(t, away, free, store.Acquired)
		count("take over", func() { tx, _ = begin(t, st, free, store.TakenOver) })
		require.NoError(t, tx.Rollback(t.Context()))

		c = claim(key(round, "held"))
		elsewhere, _ := begin(t, away, c, store.Acquired)
		count("held elsewhere", func() { begin(t, st, c, store.InFlight) })
		count("another held elsewhere", func() { begin(t, st, other(c), store.InFlight) })
		require.NoError(t, elsewhere.Rollback(t.Context()))
		tx, _ = begin(t, st, claim(key(round, "discarded")), store.Acquired)
		count("discard", func() { require.NoError(t, tx.Discard(t.Context(), store.Outcome{Failed: true})) })
		if round == 1 {
			require.Equal(t, want, got)
		}
	}
}

// A pool that is full of running handlers gives their duplicates a verdict without a connection. A pool of another
// process uses one connection, waits for no lock, and gives it back.
func TestDuplicatesOfRunningHandlersAreAnsweredAtOnce(t *testing.T) {
	p, _ := newTxPlace(t)
	pools := [2]*pgxpool.Pool{}
	var stores [2]*pgstore.Store
	for i := range stores {
		pools[i] = pgtest.NewPool(t, p.url, 2)
		var err error
		stores[i], err = pgstore.New(pools[i], pgstore.WithSchema(p.schema))
		require.NoError(t, err)
	}
	require.NoError(t, stores[0].Migrate(t.Context()))
	var running []store.Tx[pgx.Tx]
	for _, key := range []string{"one", "two"} {
		tx, _ := begin(t, stores[0], claim(key), store.Acquired)
		running = append(running, tx)
	}
	before := pools[0].Stat().AcquireCount()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, st := range stores {
		require.NoError(t, race(func(i int) error {
			c, want := claim([]string{"one", "two"}[i%2]), store.InFlight
			if i%4 > 1 {
				c = other(c)
			}
			tx, g, err := st.Begin(ctx, c)
			if err == nil && (tx != nil || g.Verdict != want) {
				err = fmt.Errorf("the verdict is %v, want %v", g.Verdict, want)
			}
			if err != nil {
				return err
			}
			if g, err = st.Reserve(ctx, c); err == nil && g.Verdict != want {
				err = fmt.Errorf("the verdict of Reserve is %v, want %v", g.Verdict, want)
			}
			return err
		}))
	}
	require.Equal(t, before, pools[0].Stat().AcquireCount())
	idle(t, pools[1])
	for _, tx := range running {
		require.NoError(t, tx.Rollback(t.Context()))
	}
	idle(t, pools[0])
	begin(t, stores[1], claim("one"), store.Acquired)
}

func TestStoresOfBothKindsHoldTheSameIDs(t *testing.T) {
	p, _ := newTxPlace(t)
	byPgx, bySQL := p.open(t), p.openSQL(t)
	tx, _ := begin(t, byPgx, claim("k"), store.Acquired)
	begin(t, bySQL, claim("k"), store.InFlight)
	begin(t, bySQL, other(claim("k")), store.InFlight)
	reserve(t, bySQL, claim("k"), store.InFlight)
	require.NoError(t, tx.Rollback(t.Context()))
	second, _ := begin(t, bySQL, claim("k"), store.Acquired)
	begin(t, byPgx, claim("k"), store.InFlight)
	begin(t, byPgx, other(claim("k")), store.InFlight)
	require.NoError(t, second.Commit(t.Context(), store.Outcome{Result: []byte("result")}))
	_, g := begin(t, byPgx, claim("k"), store.Complete)
	require.Equal(t, []byte("result"), g.Record.Result)

	// The same ID in another table is another ID.
	p.opts = []pgstore.Option{pgstore.WithTable("elsewhere")}
	elsewhere := p.open(t)
	begin(t, elsewhere, claim("j"), store.Acquired)
	begin(t, byPgx, other(claim("j")), store.Acquired)
}
