package pgoutbox_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/pgoutbox"
)

// BenchmarkDrain claims and settles events that were enqueued before, a thousand at a time. The relay is not in it:
//
//	go test -run '^$' -bench Drain -benchtime 50000x -count 6 ./outbox/pgoutbox
func BenchmarkDrain(b *testing.B) {
	for _, keys := range []int{0, 1, 1000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			p := newPlace(b)
			q, _ := p.open(b)
			p.fill(b, b.N, keys)
			b.ResetTimer()
			for done := 0; done < b.N; {
				ds, err := q.Claim(b.Context(), outbox.Claim{Max: 1000, Lease: time.Minute})
				require.NoError(b, err)
				require.NotEmpty(b, ds)
				lost, err := q.Settle(b.Context(), sentAll(ds)...)
				require.NoError(b, err)
				require.Empty(b, lost)
				done += len(ds)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkEnqueue commits a transaction of one INSERT from 16 producers, alone and with an event.
func BenchmarkEnqueue(b *testing.B) {
	for _, with := range []string{"nothing", "event", "silent event"} {
		b.Run("with="+with, func(b *testing.B) {
			p := newPlace(b)
			p.change = func(c *pgxpool.Config) { c.MaxConns = 20 }
			var opts []pgoutbox.Option
			if with == "silent event" {
				opts = append(opts, pgoutbox.WithoutNotify())
			}
			q, pool := p.open(b, opts...)
			orders := pgx.Identifier{p.schema, "orders"}.Sanitize()
			p.exec(b, "CREATE TABLE "+orders+" (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea)")
			insert, body := "INSERT INTO "+orders+" (body) VALUES ($1)", make([]byte, 512)
			b.SetParallelism(8) // of two processors
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := pgx.BeginFunc(b.Context(), pool, func(tx pgx.Tx) error {
						if _, err := tx.Exec(b.Context(), insert, body); err != nil || with == "nothing" {
							return err
						}
						_, err := q.Enqueue(b.Context(), tx, outbox.Event{Type: "order.made", Payload: body})
						return err
					}); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkClaim claims and settles one event at a time.
func BenchmarkClaim(b *testing.B) {
	p := newPlace(b)
	q, _ := p.open(b)
	p.fill(b, b.N, 0)
	var claims, settles atomic.Int64
	b.ResetTimer()
	for range b.N {
		start := time.Now()
		ds, err := q.Claim(b.Context(), outbox.Claim{Max: 1, Lease: time.Minute})
		require.NoError(b, err)
		claims.Add(int64(time.Since(start)))
		start = time.Now()
		_, err = q.Settle(b.Context(), sentAll(ds)...)
		require.NoError(b, err)
		settles.Add(int64(time.Since(start)))
	}
	b.ReportMetric(float64(claims.Load())/float64(b.N)/1000, "µs/claim")
	b.ReportMetric(float64(settles.Load())/float64(b.N)/1000, "µs/settle")
}

func sentAll(ds []outbox.Delivery) (ended []outbox.Settlement) {
	for _, d := range ds {
		ended = append(ended, outbox.Settlement{Lease: d.Lease, Outcome: outbox.Outcome{Result: outbox.Sent}})
	}
	return ended
}

// fill enqueues n events of so many ordering keys, or of none.
func (p place) fill(t testing.TB, n, keys int) {
	t.Helper()
	p.exec(t, fmt.Sprintf("INSERT INTO %s (id, destination, type, ordering_key, header, payload) "+
		"SELECT 'e' || n, '', 't', CASE WHEN %d > 0 THEN 'k' || n %% greatest(%[2]d, 1) END, '{}', "+
		"convert_to(repeat('x', 512), 'UTF8') "+
		"FROM generate_series(1, %d) AS n", p.table(), keys, n))
}
