package pgstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore"
)

// BenchmarkReserveAndComplete and BenchmarkReplay run 64 callers over a pool of 16, beside the same statements
// sent by pgx with nothing in between: run them in one go and compare.
func BenchmarkReserveAndComplete(b *testing.B) {
	p := newPlace(b)
	p.conns = 16
	st := p.open(b)
	pool := newPool(b, p.url, 16)
	first, second := pgstore.Texts(st)
	result := make([]byte, 512)
	var n atomic.Int64
	b.Run("redo", func(b *testing.B) {
		callers(b, func(ctx context.Context) error {
			g, err := st.Reserve(ctx, claim(fmt.Sprint(n.Add(1))))
			if err != nil {
				return err
			}
			return st.Complete(ctx, g.Lease, store.Outcome{Result: result})
		})
	})
	b.Run("the same by pgx", func(b *testing.B) { callers(b, sameByPgx(pool, first, second, &n, result)) })
}

// sameByPgx sends the store's own statements and reads what they return.
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

func reserveByPgx(ctx context.Context, pool *pgxpool.Pool, text, key string, turn int64) (fence int64, err error) {
	c := claim(key)
	var mine bool
	var state int16
	var born int64
	var fingerprint, result, meta []byte
	var lease, created, expires, read pgtype.Timestamptz
	err = pool.QueryRow(ctx, text, []byte("scope"), []byte(key), c.Fingerprint[:], turn, c.Meta, c.Lease.Microseconds(), c.Retention.Microseconds()).
		Scan(&mine, &fingerprint, &state, &result, &meta, &fence, &born, &lease, &created, &expires, &read)
	return fence, err
}

func BenchmarkReplay(b *testing.B) {
	p := newPlace(b)
	p.conns = 16
	st := p.open(b)
	pool := newPool(b, p.url, 16)
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
