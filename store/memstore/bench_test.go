package memstore_test

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// Run with: go test -run '^$' -bench . -benchmem ./store/memstore

func BenchmarkReserveComplete(b *testing.B) {
	st := memstore.New()
	result := make([]byte, 512)
	var n atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			id := store.ID{Scope: "POST /refunds", Key: strconv.FormatInt(n.Add(1), 10)}
			g, err := st.Reserve(b.Context(), store.Claim{ID: id, Lease: time.Minute, Retention: 24 * time.Hour})
			if err != nil {
				b.Error(err)
				return
			}
			if err := st.Complete(b.Context(), g.Lease, store.Outcome{Result: result}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkReplay(b *testing.B) {
	st := memstore.New()
	claims := make([]store.Claim, 256)
	for i := range claims {
		id := store.ID{Scope: "POST /refunds", Key: strconv.Itoa(i)}
		claims[i] = store.Claim{ID: id, Lease: time.Minute, Retention: 24 * time.Hour}
		g, err := st.Reserve(b.Context(), claims[i])
		if err != nil {
			b.Fatal(err)
		}
		if err := st.Complete(b.Context(), g.Lease, store.Outcome{Result: make([]byte, 512)}); err != nil {
			b.Fatal(err)
		}
	}
	var n atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			g, err := st.Reserve(b.Context(), claims[n.Add(1)%256])
			if err != nil || g.Verdict != store.Complete {
				b.Errorf("verdict %v, error %v", g.Verdict, err)
				return
			}
		}
	})
}
