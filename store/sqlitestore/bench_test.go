package sqlitestore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/sqltx"
)

// BenchmarkFirst measures first executions: Reserve and Complete, or one transaction.
func BenchmarkFirst(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("two steps, %d callers", callers), func(b *testing.B) {
			st := open(b, newFile(b))
			concurrently(b, callers, func(ctx context.Context, key string) error {
				g, err := st.Reserve(ctx, claim(key))
				if err != nil {
					return err
				}
				return st.Complete(ctx, g.Lease, store.Outcome{Result: []byte("result")})
			})
		})
		b.Run(fmt.Sprintf("one transaction, %d callers", callers), func(b *testing.B) {
			path := newFile(b)
			st := open(b, path)
			sqlExec(b, path, "CREATE TABLE effects (key TEXT NOT NULL)")
			concurrently(b, callers, func(ctx context.Context, key string) error {
				work := func(ctx context.Context, tx *sqltx.Tx) (store.Outcome, error) {
					_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES (?)", key)
					return store.Outcome{Result: []byte("result")}, err
				}
				_, _, err := store.Once(ctx, st, claim(key), work)
				return err
			})
		})
	}
}

// concurrently calls f b.N times, each with a new key, and reports the rate.
func concurrently(b *testing.B, callers int, f func(ctx context.Context, key string) error) {
	var next atomic.Int64
	var all sync.WaitGroup
	b.ResetTimer()
	for range callers {
		all.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				if err := f(b.Context(), fmt.Sprint(i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "first/s")
}
