package boltoutbox_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/boltoutbox"
	"github.com/redo-go/redo/store/boltstore"
)

// Relays of one queue. Run them in one go, for example
//
//	go test -run '^$' -bench . -benchtime 3000x -count 6 ./outbox/boltoutbox
var relayCounts = []int{1, 2, 4}

// BenchmarkThroughput delivers events that were enqueued before. A publisher that does nothing shows the queue's
// own cost. A publisher of 10 ms, as long as a quick HTTP call, shows the gain of more relays.
func BenchmarkThroughput(b *testing.B) {
	for _, takes := range []time.Duration{0, 10 * time.Millisecond} {
		benchThroughput(b, takes)
	}
}

func benchThroughput(b *testing.B, takes time.Duration) {
	publish := func(context.Context, outbox.Event) error {
		time.Sleep(takes)
		return nil
	}
	for _, n := range relayCounts {
		b.Run(fmt.Sprintf("takes=%v/relays=%d", takes, n), func(b *testing.B) {
			st := open(b, filepath.Join(b.TempDir(), "bench.redo"))
			q, err := boltoutbox.New(b.Context(), st)
			require.NoError(b, err)
			for i := 0; i < b.N; i += 500 {
				enqueueMany(b, q, st, i, min(i+500, b.N))
			}
			sent, all := atomic.Int64{}, make(chan struct{})
			b.ResetTimer()
			runRelays(b, q, n, publish, func(a outbox.Attempt) {
				if a.Result == outbox.Sent && sent.Add(1) == int64(b.N) {
					close(all)
				}
			})
			<-all
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkDelay measures from the return of a commit to the publisher, one event at a time.
func BenchmarkDelay(b *testing.B) {
	for _, n := range relayCounts {
		b.Run(fmt.Sprintf("relays=%d", n), func(b *testing.B) {
			st := open(b, filepath.Join(b.TempDir(), "bench.redo"))
			q, err := boltoutbox.New(b.Context(), st)
			require.NoError(b, err)
			came := make(chan time.Time, 1)
			publish := func(context.Context, outbox.Event) error {
				came <- time.Now()
				return nil
			}
			runRelays(b, q, n, publish, func(outbox.Attempt) {})
			enqueueMany(b, q, st, -1, 0)
			<-came // the relays watch, or have polled
			delays := make([]time.Duration, b.N)
			b.ResetTimer()
			for i := range b.N {
				enqueueMany(b, q, st, i, i+1)
				committed := time.Now()
				delays[i] = max(0, (<-came).Sub(committed)) // the event may come before the commit returns
			}
			b.StopTimer()
			slices.Sort(delays)
			b.ReportMetric(float64(delays[len(delays)/2].Microseconds()), "µs-p50")
			b.ReportMetric(float64(delays[len(delays)*99/100].Microseconds()), "µs-p99")
		})
	}
}

// enqueueMany enqueues the events from one number to another in a transaction.
func enqueueMany(b *testing.B, q *boltoutbox.Queue, st *boltstore.Store, from, to int) {
	require.NoError(b, st.Update(b.Context(), func(tx *boltstore.Tx) error {
		for i := from; i < to; i++ {
			ev := outbox.Event{ID: fmt.Sprint("event", i), Payload: make([]byte, 512)}
			if _, err := q.Enqueue(b.Context(), tx, ev); err != nil {
				return err
			}
		}
		return nil
	}))
}

// runRelays runs n relays until the benchmark ends.
func runRelays(b *testing.B, q *boltoutbox.Queue, n int, publish outbox.PublisherFunc, seen attempts) {
	ctx, cancel := context.WithCancel(context.Background())
	var relays sync.WaitGroup
	b.Cleanup(relays.Wait)
	b.Cleanup(cancel)
	for range n {
		r, err := outbox.NewRelay(q, publish, outbox.Observe(seen))
		require.NoError(b, err)
		relays.Go(func() { _ = r.Run(ctx) })
	}
}

// attempts observes attempts.
type attempts func(outbox.Attempt)

func (f attempts) ObserveAttempt(_ context.Context, a outbox.Attempt)    { f(a) }
func (f attempts) ObserveQueue(_ context.Context, call outbox.QueueCall) {}
