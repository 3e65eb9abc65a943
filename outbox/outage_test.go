package outbox_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
)

// A queue that is down for a while stops neither the relay nor its order, and loses no event.
func TestQueueOutage(t *testing.T) {
	inBubble(t, func(g *rig) {
		g.fill("d", 2000, func(i int) string { return string(rune('a' + i%5)) })
		d := &distant{rig: g}
		last, repeated, wrong := map[string]string{}, 0, 0
		var seen record
		stop := g.relay(d, func(_ context.Context, ev outbox.Event) error {
			time.Sleep(5 * time.Millisecond)
			if seen.add(ev) > 1 {
				repeated++
			} else if ev.ID < last[ev.OrderingKey] {
				wrong++
			}
			last[ev.OrderingKey] = ev.ID
			return nil
		}, outbox.Workers(1), outbox.LeaseTTL(6*time.Second))
		for range 4 {
			time.Sleep(2 * time.Second)
			d.down.Store(true)
			time.Sleep(40 * time.Second) // longer than leases, and than the tries of a settlement
			d.down.Store(false)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		g.stats(0, 0)
		require.Zero(g, wrong)
		require.LessOrEqual(g, repeated, 4*outbox.MaxClaim, "at most the events that a relay holds come again")
		stop()
	})
}

// Settlements that a slow queue makes late were gathered, and the buffer stays within its bound.
func TestSlowSettlementsAreGathered(t *testing.T) {
	inBubble(t, func(g *rig) {
		g.fill("d", 3000, unordered)
		d := &distant{rig: g}
		q := spoiled{Queue: d, settle: func() error { time.Sleep(time.Second); return nil }}
		start := time.Now()
		stop := g.relay(q, func(context.Context, outbox.Event) error { return nil })
		defer stop()
		for g.waiting() > 0 {
			time.Sleep(time.Second)
			const most = (64 + 1) * outbox.DefaultWorkers // each worker has one event, and 64 more are buffered for it
			require.LessOrEqual(g, d.claimed.Load()-d.settled.Load(), int64(most))
		}
		require.Less(g, time.Since(start), time.Minute)
		require.LessOrEqual(g, d.settles.Load(), int64(20))
	})
}

func (g *rig) waiting() int {
	st, err := g.queue.Stats(context.Background())
	require.NoError(g, err)
	return st.Waiting
}

// The leases of all events that a relay holds are renewed in one call.
func TestLeasesAreRenewedTogether(t *testing.T) {
	inBubble(t, func(g *rig) {
		for _, name := range []string{"a", "b", "c"} {
			g.fill(name, 50, unordered)
		}
		d := &distant{rig: g}
		release := make(chan struct{})
		stop := g.relay(d, func(context.Context, outbox.Event) error {
			<-release
			return nil
		}, outbox.LeaseTTL(30*time.Second))
		time.Sleep(5*time.Minute + time.Second)
		require.EqualValues(g, 30, d.extends.Load())
		close(release)
		time.Sleep(time.Minute)
		synctest.Wait()
		g.stats(0, 0)
		stop()
	})
}

// Of a relay that dies another one takes the events over, also those that were only buffered.
func TestCrashedRelay(t *testing.T) {
	inBubble(t, func(g *rig) {
		g.fill("d", 500, unordered)
		ds, err := g.queue.Claim(context.Background(), outbox.Claim{Max: 300, Lease: outbox.DefaultLeaseTTL})
		require.NoError(g, err)
		require.Len(g, ds, 300)
		var seen record
		stop := g.relay(g.queue, func(_ context.Context, ev outbox.Event) error { seen.add(ev); return nil })
		defer stop()
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(g, seen.all(), 200)
		time.Sleep(outbox.DefaultLeaseTTL + 2*outbox.DefaultPollInterval)
		synctest.Wait()
		require.Len(g, seen.all(), 500)
	})
}
