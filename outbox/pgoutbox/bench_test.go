package pgoutbox_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/pgoutbox"
)

// Relays of one table, each with a pool of its own. Run them in one go, for example
//
//	go test -run '^$' -bench . -benchtime 3000x -count 6 ./outbox/pgoutbox
var relayCounts = []int{1, 2, 4}

// BenchmarkThroughput delivers what was enqueued before, to a publisher that does nothing, which leaves the queue's own
// cost, and to one that takes as long as a quick HTTP call, which is what more relays are for.
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
			p := newPlace(b)
			q, pool := p.open(b)
			for i := 0; i < b.N; i += 500 {
				enqueueMany(b, q, pool, i, min(i+500, b.N))
			}
			sent, all := atomic.Int64{}, make(chan struct{})
			b.ResetTimer()
			runRelays(b, p, n, publish, func(a outbox.Attempt) {
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

// BenchmarkDelay is from the return of a commit to the publisher, one event at a time.
func BenchmarkDelay(b *testing.B) {
	for _, n := range relayCounts {
		b.Run(fmt.Sprintf("relays=%d", n), func(b *testing.B) {
			p := newPlace(b)
			q, pool := p.open(b)
			came := make(chan time.Time, 1)
			runRelays(
				b,
				p,
				n,
				func(context.Context, outbox.Event) error { came <- time.Now(); return nil },
				func(outbox.Attempt) {},
			)
			enqueueMany(b, q, pool, -1, 0)
			<-came // they listen, or have polled
			delays := make([]time.Duration, b.N)
			b.ResetTimer()
			for i := range b.N {
				enqueueMany(b, q, pool, i, i+1)
				committed := time.Now()
				delays[i] = max(0, (<-came).Sub(committed)) // it may come before the commit's own answer
			}
			b.StopTimer()
			slices.Sort(delays)
			b.ReportMetric(float64(delays[len(delays)/2].Microseconds()), "µs-p50")
			b.ReportMetric(float64(delays[len(delays)*99/100].Microseconds()), "µs-p99")
		})
	}
}

// enqueueMany enqueues the events from one number to another in a transaction.
func enqueueMany(b *testing.B, q *pgoutbox.Queue, pool *pgxpool.Pool, from, to int) {
	require.NoError(b, pgx.BeginFunc(b.Context(), pool, func(tx pgx.Tx) error {
		for i := from; i < to; i++ {
			if _, err := q.Enqueue(
				b.Context(),
				tx,
				outbox.Event{ID: fmt.Sprint("event", i), Payload: make([]byte, 512)},
			); err != nil {
				return err
			}
		}
		return nil
	}))
}

// runRelays runs n relays until the benchmark ends.
func runRelays(b *testing.B, p place, n int, publish outbox.PublisherFunc, seen told) {
	ctx, cancel := context.WithCancel(context.Background())
	var relays sync.WaitGroup
	b.Cleanup(relays.Wait)
	b.Cleanup(cancel)
	for range n {
		q, err := pgoutbox.New(p.pool(b), pgoutbox.WithSchema(p.schema))
		require.NoError(b, err)
		r, err := outbox.NewRelay(q, publish, outbox.Observe(seen))
		require.NoError(b, err)
		relays.Go(func() { _ = r.Run(ctx) })
	}
}

// told is an observer of attempts.
type told func(outbox.Attempt)

func (f told) ObserveAttempt(_ context.Context, a outbox.Attempt)    { f(a) }
func (f told) ObserveQueue(_ context.Context, call outbox.QueueCall) {}
