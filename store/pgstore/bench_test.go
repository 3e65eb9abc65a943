package pgstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/store/pgstore/pgtest"
)

// BenchmarkReserveAndComplete and BenchmarkReplay run 64 callers over a pool of 16, beside the same statements sent by
// pgx alone. Run them in one go and compare. The first also reports the share of HOT updates, the WAL of an operation
// and the indexes' size by record.
func BenchmarkReserveAndComplete(b *testing.B) {
	p := newPlace(b)
	p.conns = 16
	st := p.open(b)
	pool := pgtest.NewPool(b, p.url, 16)
	first, second := pgstore.Texts(st)
	result := make([]byte, 512)
	var n atomic.Int64
	b.Run("redo", func(b *testing.B) {
		conn := pgtest.Connect(b, p.url)
		before := p.usage(b, conn)
		callers(b, func(ctx context.Context) error {
			g, err := st.Reserve(ctx, claim(fmt.Sprint(n.Add(1))))
			if err != nil {
				return err
			}
			return st.Complete(ctx, g.Lease, store.Outcome{Result: result})
		})
		p.report(b, conn, before, n.Load())
	})
	b.Run("the same by pgx", func(b *testing.B) { callers(b, sameByPgx(pool, first, second, &n, result)) })
}

// usage holds the server's counters.
type usage struct{ updates, hot, wal int64 }

func (p place) usage(b *testing.B, conn *pgx.Conn) (u usage) {
	b.Helper()
	require.NoError(b, conn.QueryRow(b.Context(), `SELECT n_tup_upd, n_tup_hot_upd,
		(pg_current_wal_insert_lsn() - '0/0')::bigint FROM pg_stat_user_tables WHERE relid = $1::regclass`, p.table()).
		Scan(&u.updates, &u.hot, &u.wal))
	return u
}

func (p place) report(b *testing.B, conn *pgx.Conn, before usage, records int64) {
	b.StopTimer()
	var after usage
	until(b, "the sessions report their statistics", func() bool {
		after = p.usage(b, conn)
		return after.updates >= before.updates+int64(b.N)*9/10
	})
	var indexes int64
	require.NoError(b, conn.QueryRow(b.Context(), "SELECT pg_indexes_size($1::regclass)", p.table()).Scan(&indexes))
	b.ReportMetric(100*float64(after.hot-before.hot)/float64(after.updates-before.updates), "%HOT")
	b.ReportMetric(float64(after.wal-before.wal)/float64(b.N), "WAL-B/op")
	b.ReportMetric(float64(indexes)/float64(records), "index-B/record")
}

// BenchmarkEffect inserts a row once: with a record in two steps, and in one transaction.
func BenchmarkEffect(b *testing.B) {
	p := newPlace(b)
	p.conns = 32
	p.effects(b)
	st, pool := p.pooled(b)
	var n atomic.Int64
	const insert = "INSERT INTO effects VALUES ($1)"
	b.Run("two steps", func(b *testing.B) {
		callers(b, func(ctx context.Context) error {
			key := fmt.Sprint(n.Add(1))
			g, err := st.Reserve(ctx, claim(key))
			if err != nil {
				return err
			}
			if _, err := pool.Exec(ctx, insert, key); err != nil {
				return err
			}
			return st.Complete(ctx, g.Lease, store.Outcome{})
		})
	})
	b.Run("one transaction", func(b *testing.B) {
		callers(b, func(ctx context.Context) error {
			key := fmt.Sprint(n.Add(1))
			_, _, err := store.Once(ctx, st, claim(key), func(ctx context.Context, tx pgx.Tx) (store.Outcome, error) {
				return store.Outcome{}, pgxWrite(ctx, tx, insert, key)
			})
			return err
		})
	})
}

// sameByPgx sends the store's own statements and reads their results.
func sameByPgx(pool *pgxpool.Pool, first, second string, n *atomic.Int64, result []byte) func(context.Context) error {
	return func(ctx context.Context) error {
		key := n.Add(1)
		fence, err := reserveByPgx(ctx, pool, first, fmt.Sprint(key), key)
		if err == nil {
			_, err = pool.Exec(ctx, second, []byte("scope"), []byte(fmt.Sprint(key)), fence, 2, result, 0)
		}
		return err
	}
}

func reserveByPgx(ctx context.Context, pool *pgxpool.Pool, text, key string, lock int64) (fence int64, err error) {
	c := claim(key)
	var owned bool
	var born int64
	var format, state int16
	var fingerprint, result, meta, owner []byte
	var lease, created, expires, read pgtype.Timestamptz
	err = pool.QueryRow(ctx, text, []byte("scope"), []byte(key), c.Fingerprint[:], lock, c.Meta,
		c.Lease.Microseconds(), c.Retention.Microseconds(), nil, -lock).
		Scan(&owned, &format, &fingerprint, &state, &result, &meta, &owner, &fence, &born, &lease, &created, &expires,
			&read)
	return fence, err
}

func BenchmarkReplay(b *testing.B) {
	p := newPlace(b)
	p.conns = 16
	st := p.open(b)
	pool := pgtest.NewPool(b, p.url, 16)
	g := reserve(b, st, claim("k"), store.Acquired)
	require.NoError(b, st.Complete(b.Context(), g.Lease, store.Outcome{Result: make([]byte, 512)}))
	b.Run("redo", func(b *testing.B) {
		callers(b, func(ctx context.Context) error {
			_, err := st.Reserve(ctx, claim("k"))
			return err
		})
	})
	first, _ := pgstore.Texts(st)
	b.Run("the same by pgx", func(b *testing.B) {
		callers(b, func(ctx context.Context) error {
			_, err := reserveByPgx(ctx, pool, first, "k", 1)
			return err
		})
	})
}

// callers runs f from 64 goroutines, b.N times in all.
func callers(b *testing.B, f func(context.Context) error) {
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	require.NoError(b, race(func(int) error {
		for left.Add(-1) >= 0 {
			if err := f(b.Context()); err != nil {
				return err
			}
		}
		return nil
	}))
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}
