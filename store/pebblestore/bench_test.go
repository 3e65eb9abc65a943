package pebblestore_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/store/pebblestore"
)

// The benchmarks compare pebblestore with boltstore and with a bare sync of the same disk. Run them in one go:
//
//	go test -run '^$' -bench . -benchtime 1s -count 6 .
//
// An operation is a Reserve with 256 bytes of meta, and a lazy Complete with a result of 256 bytes.
var engines = map[string]func(path string) (engine, error){
	"pebblestore": func(path string) (engine, error) { return pebblestore.Open(path) },
	"boltstore":   func(path string) (engine, error) { return boltstore.Open(path) },
}

type engine interface {
	store.Store
	Close() error
}

func BenchmarkOperation1(b *testing.B)  { operations(b, 1) }
func BenchmarkOperation64(b *testing.B) { operations(b, 64) }

func operations(b *testing.B, callers int) {
	content := make([]byte, 256)
	measure(b, callers, func(ctx context.Context, st engine, i int) error {
		g, err := st.Reserve(ctx, benchClaim(i, content))
		if err != nil {
			return err
		}
		return st.Complete(ctx, g.Lease, store.Outcome{Result: content, Lazy: true})
	})
}

func BenchmarkReserve1(b *testing.B) {
	content := make([]byte, 256)
	measure(b, 1, func(ctx context.Context, st engine, i int) error {
		_, err := st.Reserve(ctx, benchClaim(i, content))
		return err
	})
}

// BenchmarkReplay64 reserves a record that is complete.
func BenchmarkReplay64(b *testing.B) {
	content := make([]byte, 256)
	measure(b, 64, func(ctx context.Context, st engine, i int) error {
		c := benchClaim(0, content)
		c.Lease = time.Hour // the first caller completes it
		g, err := st.Reserve(ctx, c)
		if err != nil || !g.Verdict.Owned() {
			return err
		}
		return st.Complete(ctx, g.Lease, store.Outcome{Result: content})
	})
}

// BenchmarkSync1 appends 512 bytes to a file and syncs it.
func BenchmarkSync1(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "file"))
	require.NoError(b, err)
	b.Cleanup(func() { _ = f.Close() })
	content := make([]byte, 512)
	for b.Loop() {
		_, err := f.Write(content)
		require.NoError(b, err)
		require.NoError(b, f.Sync())
	}
}

// benchClaim spreads its keys as random ones would be: a multiplication by an odd number is a permutation.
func benchClaim(i int, meta []byte) store.Claim {
	return store.Claim{
		ID:        store.ID{Scope: "scope", Key: fmt.Sprintf("%032x", uint64(i)*0x9E3779B97F4A7C15)},
		Retention: 24 * time.Hour,
		Meta:      meta,
	}
}

// measure runs f b.N times in all, numbered, from so many callers, and reports operations a second and the median.
func measure(b *testing.B, callers int, f func(ctx context.Context, st engine, i int) error) {
	for _, name := range slices.Sorted(maps.Keys(engines)) {
		open := engines[name]
		b.Run(name, func(b *testing.B) {
			st, err := open(filepath.Join(b.TempDir(), "bench.redo"))
			require.NoError(b, err)
			b.Cleanup(func() { require.NoError(b, st.Close()) })
			durations := make([]time.Duration, b.N)
			b.ReportAllocs()
			b.ResetTimer()
			var next atomic.Int64
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for i := int(next.Add(1)) - 1; i < b.N; i = int(next.Add(1)) - 1 {
						start := time.Now()
						if err := f(b.Context(), st, i); err != nil {
							b.Error(err)
							return
						}
						durations[i] = time.Since(start)
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			slices.Sort(durations)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
			b.ReportMetric(float64(durations[b.N/2].Microseconds()), "µs-p50")
		})
	}
}
