package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/taxonomy"
)

// A distant queue takes a millisecond for each call, as one over a network does, and counts the calls.
type distant struct {
	*rig
	claims, settles, extends, claimed, settled atomic.Int64
	down                                       atomic.Bool
	settling                                   time.Duration // more for each Settle
}

var errDown = fmt.Errorf("no response: %w", errors.New("connection refused"))

func (d *distant) call(n *atomic.Int64) error {
	time.Sleep(time.Millisecond)
	n.Add(1)
	if d.down.Load() {
		return errDown
	}
	return nil
}

func (d *distant) Append(ctx context.Context, evs ...outbox.Event) error {
	return d.queue.Append(ctx, evs...)
}

func (d *distant) Claim(ctx context.Context, c outbox.Claim) ([]outbox.Delivery, error) {
	if err := d.call(&d.claims); err != nil {
		return nil, err
	}
	ds, err := d.queue.Claim(ctx, c)
	d.claimed.Add(int64(len(ds)))
	return ds, err
}

func (d *distant) Settle(ctx context.Context, ended ...outbox.Settlement) ([]outbox.Lease, error) {
	time.Sleep(d.settling)
	if err := d.call(&d.settles); err != nil {
		return nil, err
	}
	d.settled.Add(int64(len(ended)))
	return d.queue.Settle(ctx, ended...)
}

func (d *distant) Extend(ctx context.Context, l time.Duration, leases ...outbox.Lease) ([]outbox.Lease, error) {
	if err := d.call(&d.extends); err != nil {
		return nil, err
	}
	return d.queue.Extend(ctx, l, leases...)
}

func (d *distant) Disable(ctx context.Context, destination string, why outbox.Failure) error {
	return d.queue.Disable(ctx, destination, why)
}

func (d *distant) Enable(ctx context.Context, destination string) error {
	return d.queue.Enable(ctx, destination)
}

func (d *distant) Disabled(ctx context.Context) ([]outbox.DisabledDestination, error) {
	return d.queue.Disabled(ctx)
}

func (d *distant) Watch(ctx context.Context, wake func()) error { return d.queue.Watch(ctx, wake) }

// fill enqueues n events for a destination.
func (g *rig) fill(destination string, n int, key func(int) string) {
	evs := make([]outbox.Event, n)
	for i := range evs {
		evs[i] = outbox.Event{ID: fmt.Sprintf("%s-%05d", destination, i), Destination: destination, OrderingKey: key(i)}
	}
	g.enqueue(evs...)
}

func unordered(int) string { return "" }

// bad destinations, by name.
var bad = map[string]func(ctx context.Context) error{
	"hangs":  func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	"crawls": func(context.Context) error { time.Sleep(20 * time.Second); return nil },
	"fails":  func(context.Context) error { time.Sleep(10 * time.Millisecond); return taxonomy.Unavailable },
	"refuses": func(context.Context) error {
		time.Sleep(10 * time.Millisecond)
		return &redo.Error{Code: taxonomy.NotFound, StatusCode: 404}
	},
	"hints-a-week": func(context.Context) error {
		time.Sleep(10 * time.Millisecond)
		return &redo.Error{Code: taxonomy.Unavailable, StatusCode: 503, RetryAt: time.Now().Add(7 * 24 * time.Hour)}
	},
	"is-not-reached": func(context.Context) error {
		time.Sleep(10 * time.Millisecond)
		return outbox.NotSent(errors.New("connection refused"))
	},
}

// healthy makes a steady stream of events to a healthy destination beside the others, and returns the longest delay.
func (g *rig) healthy(
	relay func(outbox.PublisherFunc) func(), events int, every time.Duration,
	others map[string]func(context.Context) error,
) time.Duration {
	g.Helper()
	var mu sync.Mutex
	began, worst, done := map[string]time.Time{}, time.Duration(0), 0
	stop := relay(func(ctx context.Context, ev outbox.Event) error {
		if f := others[ev.Destination]; f != nil {
			return f(ctx)
		}
		time.Sleep(5 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		worst = max(worst, time.Since(began[ev.ID]))
		done++
		return nil
	})
	defer stop()
	for i := range events {
		id := fmt.Sprintf("healthy-%d", i)
		mu.Lock()
		began[id] = time.Now()
		mu.Unlock()
		g.enqueue(outbox.Event{ID: id, Destination: "healthy"})
		time.Sleep(every)
	}
	time.Sleep(outbox.DefaultPollInterval)
	synctest.Wait()
	mu.Lock()
	defer mu.Unlock()
	require.Equal(g, events, done, "each event of the healthy destination is delivered")
	return worst
}

func TestBadDestinationDelaysNoOther(t *testing.T) {
	for name, f := range bad {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(g *rig) {
				g.fill(name, 10_000, unordered)
				d := &distant{rig: g}
				worst := g.healthy(func(p outbox.PublisherFunc) func() {
					return g.relay(d, p, outbox.Drain(0))
				}, 600, 100*time.Millisecond,
					map[string]func(context.Context) error{name: f})
				require.LessOrEqual(g, worst, outbox.DefaultPollInterval)
			})
		})
	}
}

func TestAllBadDestinationsTogetherDelayNoOther(t *testing.T) {
	inBubble(t, func(g *rig) {
		for name := range bad {
			g.fill(name, 10_000, unordered)
		}
		d := &distant{rig: g}
		worst := g.healthy(func(p outbox.PublisherFunc) func() {
			return g.relay(d, p, outbox.Drain(0))
		}, 600, 100*time.Millisecond, bad)
		require.LessOrEqual(g, worst, outbox.DefaultPollInterval)
	})
}

func TestFiftyHangingDestinationsDelayNoOther(t *testing.T) {
	inBubble(t, func(g *rig) {
		others := map[string]func(context.Context) error{}
		for i := range 50 {
			name := fmt.Sprint("hangs", i)
			others[name] = bad["hangs"]
			g.fill(name, 1000, func(i int) string { return fmt.Sprint(i % 7) })
		}
		d := &distant{rig: g}
		worst := g.healthy(func(p outbox.PublisherFunc) func() {
			return g.relay(d, p, outbox.Drain(0))
		}, 1200, 100*time.Millisecond, others)
		require.LessOrEqual(g, worst, outbox.DefaultPollInterval)
	})
}

// A destination that was fast and hangs from one moment on has its share of the buffer then.
func TestFastDestinationThatBeginsToHangDelaysNoOther(t *testing.T) {
	inBubble(t, func(g *rig) {
		g.fill("turns", 10_000, unordered)
		start := time.Now()
		d := &distant{rig: g}
		worst := g.healthy(func(p outbox.PublisherFunc) func() {
			return g.relay(d, p, outbox.Drain(0))
		}, 600, 100*time.Millisecond,
			map[string]func(context.Context) error{"turns": func(ctx context.Context) error {
				if time.Since(start) < 1500*time.Millisecond {
					time.Sleep(time.Millisecond)
					return nil
				}
				<-ctx.Done()
				return ctx.Err()
			}})
		require.LessOrEqual(g, worst, outbox.DefaultPollInterval)
	})
}

func TestHealthyDrainTakesFewRoundTrips(t *testing.T) {
	for name, c := range map[string]struct {
		key             func(int) string
		settling        time.Duration
		claims, settles int64
		within          time.Duration
	}{
		"without order":        {unordered, 0, 100, 150, 200 * time.Millisecond},
		"in 100 lines":         {func(i int) string { return fmt.Sprint(i % 100) }, 0, 150, 150, 200 * time.Millisecond},
		"in a line alone":      {func(int) string { return "a" }, 0, 61, 1500, 2 * time.Second},
		"with slow settlement": {unordered, 50 * time.Millisecond, 100, 150, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(g *rig) {
				const n = 10_000
				g.fill("shop", n, c.key)
				d := &distant{rig: g, settling: c.settling}
				var seen record
				start := time.Now()
				stop := g.relay(d, func(_ context.Context, ev outbox.Event) error {
					time.Sleep(100 * time.Microsecond)
					seen.add(ev)
					return nil
				})
				for g.waiting() > 0 && time.Since(start) <= c.within {
					time.Sleep(10 * time.Millisecond)
				}
				elapsed := time.Since(start)
				t.Log(elapsed, d.claims.Load(), "claims", d.settles.Load(), "settles", d.claimed.Load(),
					"claimed")
				stop()
				require.Len(g, seen.all(), n)
				require.LessOrEqual(g, elapsed, c.within)
				require.LessOrEqual(g, d.claims.Load(), c.claims)
				require.LessOrEqual(g, d.settles.Load(), c.settles)
			})
		})
	}
}

// A counted queue counts the outcomes of the attempts. It has no Watch.
type counted struct {
	outbox.Queue
	mu      sync.Mutex
	results map[outbox.Result]int
}

func (c *counted) Settle(ctx context.Context, ended ...outbox.Settlement) ([]outbox.Lease, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.results == nil {
		c.results = map[outbox.Result]int{}
	}
	for _, e := range ended {
		c.results[e.Outcome.Result]++
	}
	return c.Queue.Settle(ctx, ended...)
}

// The events behind it need no second claim, whether the destination or the event is at fault.
func TestAFailureReturnsNoOtherEventToTheQueue(t *testing.T) {
	for _, c := range []struct {
		err  error
		want map[outbox.Result]int
	}{
		{errors.New("no"), map[outbox.Result]int{outbox.Waiting: 1, outbox.Sent: 4}},
		{
			&redo.Error{Code: taxonomy.InvalidRequest, StatusCode: 422},
			map[outbox.Result]int{outbox.Waiting: 1, outbox.Sent: 4},
		},
		{outbox.Reject(errors.New("not this one")), map[outbox.Result]int{outbox.Dead: 1, outbox.Sent: 3}},
	} {
		inBubble(t, func(g *rig) {
			g.fill("d", 4, unordered)
			q := &counted{Queue: g.queue}
			failed := false
			stop := g.relay(q, func(context.Context, outbox.Event) error {
				if failed {
					return nil
				}
				failed = true
				return c.err
			}, outbox.Workers(1), outbox.PerDestination(4), constant(2, time.Minute))
			defer stop()
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			require.Equal(g, c.want, q.results, c.err)
		})
	}
}

func TestAFullClaimIsFollowedByAnother(t *testing.T) {
	inBubble(t, func(g *rig) {
		for i := range outbox.MaxClaim + 500 {
			g.enqueue(outbox.Event{ID: "k", Destination: fmt.Sprint("d", i)})
		}
		stop := g.relay(&counted{Queue: g.queue}, func(ctx context.Context, _ outbox.Event) error {
			<-ctx.Done()
			return ctx.Err()
		}, outbox.Workers(64), outbox.Drain(0), outbox.PollInterval(time.Hour))
		defer stop()
		synctest.Wait()
		ds, err := g.queue.Claim(context.Background(), outbox.Claim{Max: outbox.MaxClaim, Lease: time.Second})
		require.NoError(g, err)
		require.Empty(g, ds, "the relay has them")
	})
}

// A claim is a round trip, so it must be worth one. No destination has more than one event.
func TestARelayClaimsWhenHalfOfItsBufferIsFree(t *testing.T) {
	inBubble(t, func(g *rig) {
		const workers, events = 8, 8192
		for i := range events {
			g.enqueue(outbox.Event{ID: "k", Destination: fmt.Sprint("d", i)})
		}
		d := &distant{rig: g}
		stop := g.relay(spoiled{Queue: d}, func(context.Context, outbox.Event) error {
			time.Sleep(10 * time.Millisecond)
			return nil
		}, outbox.Workers(workers), outbox.PerDestination(4), outbox.PollInterval(time.Hour))
		time.Sleep(time.Minute)
		stop()
		g.stats(0, 0)
		const half = 64 * workers / 2
		require.LessOrEqual(g, d.claims.Load(), int64(events/half+4))
	})
}

// Another relay may have a connection on which the destination does not hang.
func TestEventsBehindAStuckDestinationReturnToTheQueue(t *testing.T) {
	inBubble(t, func(g *rig) {
		var mu sync.Mutex
		hang := false
		stop := g.relay(&counted{Queue: g.queue}, func(ctx context.Context, _ outbox.Event) error {
			mu.Lock()
			slow := hang
			mu.Unlock()
			if slow {
				<-ctx.Done()
			}
			return ctx.Err()
		}, outbox.Workers(8), outbox.PerDestination(4), outbox.Drain(0), outbox.PollInterval(10*time.Millisecond))
		defer stop()
		g.fill("d", 20, unordered) // so many deliveries in a second let the relay claim as many
		time.Sleep(100 * time.Millisecond)
		mu.Lock()
		hang = true
		mu.Unlock()
		for i := range 20 {
			g.enqueue(outbox.Event{ID: fmt.Sprint("late", i), Destination: "d"})
		}
		for after, want := range []int{0, 16} {
			time.Sleep(900 * time.Millisecond)
			ds, err := g.queue.Claim(context.Background(), outbox.Claim{Max: 100, Lease: time.Millisecond})
			require.NoError(g, err)
			require.Len(g, ds, want, after)
		}
	})
}

// A relay that has delivered much to a destination begins anew after a minute without events.
func TestAnIdleDestinationIsForgotten(t *testing.T) {
	for idle, want := range map[time.Duration]int{time.Minute - 1: 20, time.Minute: 4} {
		inBubble(t, func(g *rig) {
			var mu sync.Mutex
			hang, running := false, 0
			stop := g.relay(g.queue, func(ctx context.Context, _ outbox.Event) error {
				mu.Lock()
				slow := hang
				running++
				mu.Unlock()
				if slow {
					<-ctx.Done()
				}
				return ctx.Err()
			}, outbox.Workers(32), outbox.Drain(0))
			defer stop()
			g.fill("d", 40, unordered)
			time.Sleep(idle)
			mu.Lock()
			hang, running = true, 0
			mu.Unlock()
			for i := range 20 {
				g.enqueue(outbox.Event{ID: fmt.Sprint("late", i), Destination: "d"})
			}
			time.Sleep(50 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			require.Equal(g, want, running, idle)
		})
	}
}

func TestEnableWakesARelayThatDoesNotWatch(t *testing.T) {
	inBubble(t, func(g *rig) {
		require.NoError(g, g.queue.Disable(context.Background(), "d", outbox.Failure{Reason: "gone"}))
		var seen record
		r, err := outbox.NewRelay(&counted{Queue: g.queue}, outbox.PublisherFunc(
			func(_ context.Context, ev outbox.Event) error { seen.add(ev); return nil }), outbox.PollInterval(time.Hour))
		require.NoError(g, err)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		synctest.Wait()
		g.enqueue(outbox.Event{ID: "k", Destination: "d"})
		require.NoError(g, r.Enable(ctx, "d"))
		synctest.Wait()
		require.Equal(g, []string{"k"}, seen.all(), "at once")
		cancel()
		require.NoError(g, <-ended)
	})
}
