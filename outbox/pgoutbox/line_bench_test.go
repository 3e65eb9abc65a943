package pgoutbox_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
)

// BenchmarkLine delivers a line of b.N events of one ordering key, which go one after the other. Its time an event must
// not grow with the line:
//
//	go test -run '^$' -bench Line -benchtime 1000x ./outbox/pgoutbox
//	go test -run '^$' -bench Line -benchtime 100000x ./outbox/pgoutbox
func BenchmarkLine(b *testing.B) {
	p := newPlace(b)
	p.open(b)
	p.line(b, "busy", b.N)
	sent, all := 0, make(chan struct{})
	b.ResetTimer()
	runRelays(b, p, 1, func(context.Context, outbox.Event) error { return nil }, func(a outbox.Attempt) {
		if sent++; sent == b.N {
			close(all)
		}
	})
	<-all
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkBesideLine claims and settles an event of another key while many of a busy key wait, whose first is under
// way. What the first claim beside them takes is a metric of its own.
func BenchmarkBesideLine(b *testing.B) {
	for _, n := range []int{0, 1000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("line=%d", n), func(b *testing.B) {
			p := newPlace(b)
			q, _ := p.open(b)
			p.line(b, "busy", n+1)
			claim := func(most int) []outbox.Delivery {
				ds, err := q.Claim(b.Context(), outbox.Claim{Max: most, Lease: time.Hour})
				require.NoError(b, err)
				return ds
			}
			require.Len(b, claim(1), 1)
			p.line(b, "other", b.N)
			start := time.Now()
			first := claim(16)
			for len(first) == 0 { // it has parked many
				first = claim(16)
			}
			took := time.Since(start)
			require.Len(b, first, 1)
			require.NoError(b, q.Settle(b.Context(), first[0].Lease, outbox.Outcome{Result: outbox.Released}))
			b.ResetTimer()
			for range b.N {
				ds := claim(16)
				require.Len(b, ds, 1)
				require.NoError(b, q.Settle(b.Context(), ds[0].Lease, outbox.Outcome{Result: outbox.Sent}))
			}
			b.StopTimer()
			b.ReportMetric(float64(took.Microseconds()), "µs-first")
		})
	}
}
