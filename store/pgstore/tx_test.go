package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore"
)

func begin[T any](t testing.TB, st store.TxStore[T], c store.Claim, want store.Verdict) (store.Tx[T], store.Grant) {
	t.Helper()
	tx, g, err := st.Begin(context.Background(), c)
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

// The counts are those that the package comment states.
func TestRoundTripsOfATransaction(t *testing.T) {
	p, w := newTxPlace(t)
	p.conns = 1
	away := p
	away.change = nil
	t.Run("pgx", func(t *testing.T) {
		roundTrips(t, w, p.open(t), away.open(t), map[string]int64{"begin": 2, "replay": 1, "held elsewhere": 4, "commit": 2, "discard": 3})
	})
	each := map[string]int64{"begin": 4, "replay": 1, "held elsewhere": 5, "commit": 2, "discard": 3}
	t.Run("pgx in another mode than its pool's", func(t *testing.T) {
		p.opts = []pgstore.Option{pgstore.WithExecMode(pgx.QueryExecModeExec)}
		roundTrips(t, w, p.open(t), away.open(t), each)
		p.opts = nil
	})
	t.Run("database/sql", func(t *testing.T) { roundTrips(t, w, p.openSQL(t), away.open(t), each) })
}

func roundTrips[T any](t *testing.T, w *wire, st store.TxStore[T], away store.TxStore[pgx.Tx], want map[string]int64) {
	key := func(round int, what string) string { return fmt.Sprint(t.Name(), round, what) }
	for round := range 2 { // the first prepares the statements
		got := map[string]int64{}
		count := func(what string, f func()) { got[what] = w.count(f) }
		var tx store.Tx[T]
		c := claim(key(round, "k"))
		count("begin", func() { tx, _ = begin(t, st, c, store.Acquired) })
		require.Zero(t, w.count(func() {
			begin(t, st, c, store.InFlight)
			begin(t, st, other(c), store.Mismatch)
			reserve(t, st, c, store.InFlight)
			reserve(t, st, other(c), store.Mismatch)
		}), "duplicates of an open transaction of this store's")
		count("commit", func() { require.NoError(t, tx.Commit(t.Context(), store.Outcome{})) })
		count("replay", func() { begin(t, st, c, store.Complete) })
		count("mismatch", func() { begin(t, st, other(c), store.Mismatch) })
		leased := claim(key(round, "leased"))
		reserve(t, away, leased, store.Acquired)
		count("in flight", func() { begin(t, st, leased, store.InFlight) })

		c = claim(key(round, "held"))
		elsewhere, _ := begin(t, away, c, store.Acquired)
		count("held elsewhere", func() { begin(t, st, c, store.InFlight) })
		count("another held elsewhere", func() { begin(t, st, other(c), store.Mismatch) })
		require.NoError(t, elsewhere.Rollback(t.Context()))
		tx, _ = begin(t, st, claim(key(round, "discarded")), store.Acquired)
		count("discard", func() { require.NoError(t, tx.Discard(t.Context(), store.Outcome{Failed: true})) })
		want["in flight"], want["mismatch"], want["another held elsewhere"] = want["replay"], want["replay"], want["held elsewhere"]
		if round == 1 {
			require.Equal(t, want, got)
		}
	}
}

// A pool that is full of running handlers answers their duplicates without a connection. One of another process answers
// with one, waits for no lock, and gives it back.
func TestDuplicatesOfRunningHandlersAreAnsweredAtOnce(t *testing.T) {
	p, _ := newTxPlace(t)
	pools := [2]*pgxpool.Pool{}
	var stores [2]*pgstore.Store
	for i := range stores {
		pools[i] = newPool(t, p.url, 2)
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
				c, want = other(c), store.Mismatch
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
	require.Zero(t, pools[1].Stat().AcquiredConns())
	for _, tx := range running {
		require.NoError(t, tx.Rollback(t.Context()))
	}
	require.Zero(t, pools[0].Stat().AcquiredConns())
	begin(t, stores[1], claim("one"), store.Acquired)
}

// Nobody is told of a mismatch unless another payload was there: owners of one payload come and go as fast as they can,
// by commit and by rollback, while others of it ask.
func TestOnePayloadIsNeverAMismatch(t *testing.T) {
	p := newPlace(t)
	p.conns = 16
	stores := []*pgstore.Store{p.open(t), p.open(t)}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	require.NoError(t, race(func(i int) error {
		for n := 0; ctx.Err() == nil; n++ {
			c := claim(fmt.Sprint("k", i%4))
			if i%8 == 7 {
				if g, err := stores[i%2].Reserve(t.Context(), c); err != nil || g.Verdict == store.Mismatch {
					return fmt.Errorf("reserve: %v, %w", g.Verdict, errors.Join(err, errors.New("stop")))
				} else if g.Verdict.Owned() {
					_ = stores[i%2].Release(t.Context(), g.Lease)
				}
				continue
			}
			tx, g, err := stores[i%2].Begin(t.Context(), c)
			if err != nil || g.Verdict == store.Mismatch {
				return fmt.Errorf("begin: %v, %w", g.Verdict, errors.Join(err, errors.New("stop")))
			}
			switch {
			case tx == nil:
			case n%2 == 0:
				err = tx.Rollback(t.Context())
			default:
				err = tx.Commit(t.Context(), store.Outcome{Retention: time.Microsecond})
			}
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

func TestStoresOfBothKindsHoldTheSameIDs(t *testing.T) {
	p, _ := newTxPlace(t)
	byPgx, bySQL := p.open(t), p.openSQL(t)
	tx, _ := begin(t, byPgx, claim("k"), store.Acquired)
	begin(t, bySQL, claim("k"), store.InFlight)
	begin(t, bySQL, other(claim("k")), store.Mismatch)
	reserve(t, bySQL, claim("k"), store.InFlight)
	require.NoError(t, tx.Rollback(t.Context()))
	second, _ := begin(t, bySQL, claim("k"), store.Acquired)
	begin(t, byPgx, claim("k"), store.InFlight)
	begin(t, byPgx, other(claim("k")), store.Mismatch)
	require.NoError(t, second.Commit(t.Context(), store.Outcome{Result: []byte("result")}))
	_, g := begin(t, byPgx, claim("k"), store.Complete)
	require.Equal(t, []byte("result"), g.Record.Result)

	// The same ID in another table is another ID.
	p.opts = []pgstore.Option{pgstore.WithTable("elsewhere")}
	elsewhere := p.open(t)
	begin(t, elsewhere, claim("j"), store.Acquired)
	begin(t, byPgx, other(claim("j")), store.Acquired)
}
