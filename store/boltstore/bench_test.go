package boltstore_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// The records of all benchmarks are of one size, 96 bytes of header and 256 of meta, so that boltstore and bare
// bbolt can be compared. Run them in one go, for example
//
//	go test -run '^$' -bench . -benchtime 1s -count 6 ./store/boltstore
const (
	benchCallers = 64
	benchMeta    = 256
	benchRecord  = 96 + benchMeta
)

func BenchmarkReserve1(b *testing.B)    { benchReserve(b, 1) }
func BenchmarkReserve64(b *testing.B)   { benchReserve(b, benchCallers) }
func BenchmarkOperation1(b *testing.B)  { benchOperation(b, 1, true) }
func BenchmarkOperation64(b *testing.B) { benchOperation(b, benchCallers, true) }

func BenchmarkOperationDurable64(b *testing.B) { benchOperation(b, benchCallers, false) }

// BenchmarkReplay64 reserves what is complete: no commit.
func BenchmarkReplay64(b *testing.B) {
	st := benchStore(b)
	c := benchClaim(0)
	g, err := st.Reserve(b.Context(), c)
	require.NoError(b, err)
	require.NoError(b, st.Complete(b.Context(), g.Lease, store.Outcome{Result: make([]byte, benchMeta)}))
	before := st.Stats().Commits
	concurrently(b, benchCallers, func(ctx context.Context, _ int) error {
		_, err := st.Reserve(ctx, c)
		return err
	})
	require.Equal(b, before, st.Stats().Commits)
}

func BenchmarkBboltUpdate1(b *testing.B)  { benchBbolt(b, 1, (*bbolt.DB).Update) }
func BenchmarkBboltUpdate64(b *testing.B) { benchBbolt(b, benchCallers, (*bbolt.DB).Update) }
func BenchmarkBboltBatch64(b *testing.B)  { benchBbolt(b, benchCallers, (*bbolt.DB).Batch) }

// BenchmarkBboltOperation64 is an operation's two writes in two Updates.
func BenchmarkBboltOperation64(b *testing.B) {
	benchBbolt(b, benchCallers, func(db *bbolt.DB, f func(*bbolt.Tx) error) error {
		if err := db.Update(f); err != nil {
			return err
		}
		return db.Update(f)
	})
}

func benchReserve(b *testing.B, callers int) {
	st := benchStore(b)
	concurrently(b, callers, func(ctx context.Context, i int) error {
		_, err := st.Reserve(ctx, benchClaim(i))
		return err
	})
	report(b, st)
}

func benchOperation(b *testing.B, callers int, lazy bool) {
	st := benchStore(b)
	concurrently(b, callers, func(ctx context.Context, i int) error {
		g, err := st.Reserve(ctx, benchClaim(i))
		if err != nil {
			return err
		}
		return st.Complete(ctx, g.Lease, store.Outcome{Lazy: lazy})
	})
	report(b, st)
}

func benchBbolt(b *testing.B, callers int, run func(*bbolt.DB, func(*bbolt.Tx) error) error) {
	db, err := bbolt.Open(filepath.Join(b.TempDir(), "bench.db"), 0o600,
		&bbolt.Options{FreelistType: bbolt.FreelistArrayType})
	require.NoError(b, err)
	b.Cleanup(func() { _ = db.Close() })
	bucket := []byte("records")
	require.NoError(b, db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket(bucket)
		return err
	}))
	value := make([]byte, benchRecord)
	concurrently(b, callers, func(_ context.Context, i int) error {
		key := []byte(benchClaim(i).ID.Key)
		return run(db, func(tx *bbolt.Tx) error { return tx.Bucket(bucket).Put(key, value) })
	})
}

func benchStore(b *testing.B) *boltstore.Store {
	st, err := boltstore.Open(filepath.Join(b.TempDir(), "bench.redo"))
	require.NoError(b, err)
	b.Cleanup(func() { _ = st.Close() })
	return st
}

var benchContent = make([]byte, benchMeta)

// benchClaim spreads its keys as random ones would be: a multiplication by an odd number is a permutation.
func benchClaim(i int) store.Claim {
	return store.Claim{
		ID:        store.ID{Scope: "scope", Key: fmt.Sprintf("%032x", uint64(i)*0x9E3779B97F4A7C15)},
		Retention: 24 * time.Hour,
		Meta:      benchContent,
	}
}

// concurrently runs f b.N times in all, numbered, from so many callers at a time.
func concurrently(b *testing.B, callers int, f func(ctx context.Context, i int) error) {
	b.ReportAllocs()
	b.ResetTimer()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= b.N {
					return
				}
				if err := f(b.Context(), i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}

func report(b *testing.B, st *boltstore.Store) {
	s := st.Stats()
	b.ReportMetric(float64(s.Transitions)/float64(max(1, s.Groups)), "changes/group")
}
