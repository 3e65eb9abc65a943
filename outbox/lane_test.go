package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/internal/chance"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/taxonomy"
)

// The events behind a 429 return to the queue, and the relay claims them when the wait is over.
func TestARateLimitedDestinationRestsAndIsThenServed(t *testing.T) {
	inBubble(t, func(g *rig) {
		g.fill("d", 4, unordered)
		var attempts []time.Duration
		start := time.Now()
		stop := g.relay(&counted{Queue: g.queue}, func(context.Context, outbox.Event) error {
			attempts = append(attempts, time.Since(start).Round(10*time.Second))
			if len(attempts) == 1 {
				return &redo.Error{Code: taxonomy.RateLimited, StatusCode: 429, RetryAt: start.Add(40 * time.Second)}
			}
			return nil
		}, outbox.Workers(1), outbox.PollInterval(time.Hour))
		defer stop()
		synctest.Wait()
		ds, err := g.queue.Claim(context.Background(), outbox.Claim{Max: 4, Lease: time.Millisecond})
		require.NoError(g, err)
		require.Len(g, ds, 3, "another relay may have them")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(g, attempts, 5)
		for _, at := range attempts[1:] {
			require.GreaterOrEqual(g, at, 40*time.Second)
		}
	})
}

// A crowd counts the attempts that work at the same time.
type crowd struct{ running, most atomic.Int32 }

func (c *crowd) work(d time.Duration) {
	c.most.Store(max(c.most.Load(), c.running.Add(1)))
	time.Sleep(d)
	c.running.Add(-1)
}

// An attempt that takes long leaves its worker, which serves others meanwhile. Its end gives back no worker.
func TestTheEndOfASlowAttemptAddsNoWorker(t *testing.T) {
	inBubble(t, func(g *rig) {
		var attempts crowd
		stop := g.relay(g.queue, func(_ context.Context, ev outbox.Event) error {
			if ev.Destination == "slow" {
				time.Sleep(150 * time.Millisecond)
				return nil
			}
			attempts.work(10 * time.Millisecond)
			return nil
		}, outbox.Workers(1))
		defer stop()
		g.fill("slow", 1, unordered)
		time.Sleep(200 * time.Millisecond)
		for i := range 10 {
			g.fill(fmt.Sprint("d", i), 1, unordered)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		g.stats(0, 0)
		require.EqualValues(g, 1, attempts.most.Load())
	})
}

// The worker serves the next destination from the moment on at which the attempt is slow.
func TestASlowAttemptLetsAnotherOneBegin(t *testing.T) {
	inBubble(t, func(g *rig) {
		var seen record
		stop := g.relay(g.queue, func(ctx context.Context, ev outbox.Event) error {
			seen.add(ev)
			if ev.ID == "slow" {
				<-ctx.Done()
			}
			return ctx.Err()
		}, outbox.Workers(1), outbox.Drain(0), outbox.PollInterval(time.Hour))
		defer stop()
		g.enqueue(outbox.Event{ID: "slow", Destination: "a"})
		synctest.Wait()
		g.enqueue(outbox.Event{ID: "next", Destination: "b"})
		synctest.Wait()
		require.Equal(g, []string{"slow"}, seen.all())
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		require.Equal(g, []string{"slow", "next"}, seen.all())
	})
}

// So many attempts may be slow at the same time. The next one keeps its worker until one of them has ended.
func TestASlowAttemptWaitsForAPlaceBesideTheWorker(t *testing.T) {
	inBubble(t, func(g *rig) {
		const places = 64
		var seen record
		first := make(chan struct{})
		stop := g.relay(g.queue, func(ctx context.Context, ev outbox.Event) error {
			switch seen.add(ev); ev.ID {
			case "0":
				<-first
			case "next":
			default:
				<-ctx.Done()
			}
			return ctx.Err()
		}, outbox.Workers(1), outbox.AttemptTimeout(time.Hour), outbox.Drain(0), outbox.PollInterval(time.Hour))
		defer stop()
		for i := range places + 1 {
			g.enqueue(outbox.Event{ID: fmt.Sprint(i), Destination: fmt.Sprint(i)})
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		g.enqueue(outbox.Event{ID: "next", Destination: "next"})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Len(g, seen.all(), places+1)
		close(first)
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		require.Contains(g, seen.all(), "next")
	})
}

// Many relays may find a destination down at the same time. They must not try it again at the same time.
func TestARestIsLongerByChance(t *testing.T) {
	t.Cleanup(func() { chance.Replace(nil) })
	for drawn, want := range map[float64]time.Duration{0: time.Second, 0.5: 1125 * time.Millisecond} {
		chance.Replace(func() float64 { return drawn })
		inBubble(t, func(g *rig) {
			var tries []time.Duration
			start := time.Now()
			g.fill("d", 1, unordered)
			defer g.relay(g.queue, func(context.Context, outbox.Event) error {
				tries = append(tries, time.Since(start))
				return outbox.NotSent(errors.New("connection refused"))
			}, outbox.PollInterval(time.Hour))()
			time.Sleep(2 * time.Second)
			synctest.Wait()
			require.Equal(g, []time.Duration{0, want}, tries)
		})
	}
}

// Events that return to the queue leave room for others.
func TestALineThatFailsTakesNoRoom(t *testing.T) {
	inBubble(t, func(g *rig) {
		g.fill("d", 200, func(i int) string { return fmt.Sprint("line", i/2) }) // more than one worker has room for
		var seen record
		defer g.relay(g.queue, func(_ context.Context, ev outbox.Event) error {
			if seen.add(ev) == 1 {
				return errors.New("unavailable")
			}
			return nil
		}, outbox.Workers(1), outbox.PerDestination(4), outbox.Breaker(0), constant(2, time.Second))()
		time.Sleep(time.Hour)
		synctest.Wait()
		g.stats(0, 0)
	})
}

// A destination that may still be down gets one attempt at a time.
func TestADestinationIsTriedByOneAttemptAfterARest(t *testing.T) {
	inBubble(t, func(g *rig) {
		var attempts crowd
		stop := g.relay(g.queue, func(context.Context, outbox.Event) error {
			attempts.work(10 * time.Millisecond)
			return outbox.NotSent(errors.New("connection refused"))
		}, outbox.PerDestination(4))
		g.fill("d", 1, unordered)
		time.Sleep(500 * time.Millisecond) // it rests for a second
		for i := range 4 {
			g.enqueue(outbox.Event{ID: fmt.Sprint("k", i), Destination: "d"})
		}
		time.Sleep(time.Minute)
		stop()
		g.stats(5, 0)
		require.EqualValues(g, 1, attempts.most.Load())
	})
}

// Each failure halves the number of attempts that run at the same time.
func TestADestinationThatFailsIsTriedByFewerAttempts(t *testing.T) {
	for failures, most := range map[int]int32{0: 4, 1: 2, 2: 1, 3: 1} {
		inBubble(t, func(g *rig) {
			var attempts crowd
			stop := g.relay(g.queue, func(context.Context, outbox.Event) error {
				attempts.work(10 * time.Millisecond)
				return errors.New("unavailable")
			}, outbox.PerDestination(4), outbox.Breaker(0), constant(2, time.Hour))
			g.fill("d", failures, unordered)
			time.Sleep(time.Second)
			attempts.most.Store(0)
			for i := range 4 {
				g.enqueue(outbox.Event{ID: fmt.Sprint("k", i), Destination: "d"})
			}
			time.Sleep(time.Second)
			stop()
			require.Equal(g, most, attempts.most.Load(), failures)
		})
	}
}

// Workers serve the destinations in turn, however many events each one has.
func TestDestinationsHaveTurns(t *testing.T) {
	inBubble(t, func(g *rig) {
		for _, name := range []string{"a", "b", "c"} {
			g.fill(name, 4, unordered)
		}
		var seen record
		stop := g.relay(g.queue, func(_ context.Context, ev outbox.Event) error {
			time.Sleep(time.Millisecond)
			seen.add(ev)
			return nil
		}, outbox.Workers(1), outbox.PerDestination(4))
		time.Sleep(time.Second)
		stop()
		var turns string
		for _, id := range seen.all() {
			turns += id[:1]
		}
		require.Len(g, turns, 12)
		for i := range 4 {
			require.ElementsMatch(g, []byte("abc"), []byte(turns[3*i:3*i+3]), turns)
		}
	})
}

// An idle destination is forgotten after a minute. One whose attempt still runs is not idle.
func TestALongAttemptKeepsTheNextOneWaiting(t *testing.T) {
	inBubble(t, func(g *rig) {
		var attempts crowd
		stop := g.relay(g.queue, func(context.Context, outbox.Event) error {
			attempts.work(10 * time.Minute)
			return nil
		}, outbox.PerDestination(1), outbox.AttemptTimeout(time.Hour))
		defer stop()
		g.fill("d", 1, unordered)
		time.Sleep(5 * time.Minute)
		g.enqueue(outbox.Event{ID: "k", Destination: "d"})
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		g.stats(0, 0)
		require.EqualValues(g, 1, attempts.most.Load())
	})
}

// A relay with a new name for each destination must not grow for ever.
func TestARelayForgetsASuccessThatNoScheduleReaches(t *testing.T) {
	inBubble(t, func(g *rig) {
		r, err := outbox.NewRelay(g.queue, outbox.PublisherFunc(func(context.Context, outbox.Event) error { return nil }),
			constant(2, time.Hour))
		require.NoError(g, err)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		defer func() {
			cancel()
			require.NoError(g, <-ended)
		}()
		g.fill("old", 1, unordered)
		time.Sleep(2 * time.Hour)
		require.Equal(g, 1, outbox.Remembered(r), "an event of an hour ago may wait")
		time.Sleep(3 * time.Hour)
		require.Zero(g, outbox.Remembered(r))
	})
}

// The second event of a line leaves the relay's buffer when it begins, and not when it ends.
func TestALineThatHangsLeavesTheOtherPlaceOfItsDestination(t *testing.T) {
	inBubble(t, func(g *rig) {
		var seen record
		stop := g.relay(g.queue, func(ctx context.Context, ev outbox.Event) error {
			if seen.add(ev); ev.ID == "a2" {
				<-ctx.Done()
			}
			return ctx.Err()
		}, outbox.PerDestination(2), outbox.Drain(0), outbox.PollInterval(time.Hour))
		defer stop()
		g.enqueue(outbox.Event{ID: "a1", OrderingKey: "a"}, outbox.Event{ID: "a2", OrderingKey: "a"},
			outbox.Event{ID: "b1"}, outbox.Event{ID: "b2"})
		synctest.Wait()
		require.ElementsMatch(g, []string{"a1", "a2", "b1", "b2"}, seen.all(), "at once")
	})
}

// The event behind a stuck one returns to the queue. The relay then claims another event in its place.
func TestTheReturnOfAnEventMakesRoomForAnother(t *testing.T) {
	inBubble(t, func(g *rig) {
		var seen record
		g.enqueue(outbox.Event{ID: "a1", OrderingKey: "a"}, outbox.Event{ID: "a2", OrderingKey: "a"},
			outbox.Event{ID: "b1"})
		stop := g.relay(&counted{Queue: g.queue}, func(ctx context.Context, ev outbox.Event) error {
			if seen.add(ev); ev.ID == "a1" {
				<-ctx.Done()
			}
			return ctx.Err()
		}, outbox.PerDestination(2), outbox.Drain(0), outbox.PollInterval(time.Hour))
		defer stop()
		time.Sleep(time.Second - 1)
		require.Equal(g, []string{"a1"}, seen.all())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Equal(g, []string{"a1", "b1"}, seen.all())
	})
}

// A relay claims as many events of a destination as it has delivered in the last second. It knows that of the second
// before the present one.
func TestAPauseReducesTheEventsThatAreClaimed(t *testing.T) {
	const delivered, concurrent, more = 20, 2, 30
	for pause, claimed := range map[time.Duration]int{2*time.Second - 1: delivered, 2 * time.Second: concurrent} {
		inBubble(t, func(g *rig) {
			var hang atomic.Bool
			stop := g.relay(g.queue, func(ctx context.Context, ev outbox.Event) error {
				if ev.ID == "hangs" || hang.Load() {
					<-ctx.Done()
				}
				return ctx.Err()
			}, outbox.PerDestination(concurrent), outbox.Drain(0), outbox.PollInterval(time.Hour))
			defer stop()
			synctest.Wait()
			g.enqueue(outbox.Event{ID: "hangs", Destination: "d"})
			g.fill("d", delivered, unordered)
			time.Sleep(pause)
			hang.Store(true)
			for i := range more {
				g.enqueue(outbox.Event{ID: fmt.Sprint("late", i), Destination: "d"})
			}
			synctest.Wait()
			ds, err := g.queue.Claim(context.Background(), outbox.Claim{Max: 100, Lease: time.Millisecond})
			require.NoError(g, err)
			require.Len(g, ds, 1+more-claimed, pause)
		})
	}
}

// Another relay may have a connection on which the destination does not hang.
func TestADestinationThatHangsForASecondGetsNoMoreEvents(t *testing.T) {
	for hanging, left := range map[time.Duration]int{time.Second - 1: 0, time.Second: 3} {
		inBubble(t, func(g *rig) {
			var hang atomic.Bool
			stop := g.relay(g.queue, func(ctx context.Context, _ outbox.Event) error {
				if hang.Load() {
					<-ctx.Done()
				}
				return ctx.Err()
			}, outbox.PerDestination(2), outbox.Drain(0), outbox.PollInterval(time.Hour))
			defer stop()
			synctest.Wait()
			g.fill("d", 20, unordered) // so many deliveries in a second let the relay claim as many
			synctest.Wait()
			hang.Store(true)
			g.enqueue(outbox.Event{ID: "hangs1", Destination: "d"}, outbox.Event{ID: "hangs2", Destination: "d"})
			time.Sleep(hanging)
			synctest.Wait()
			for i := range 3 {
				g.enqueue(outbox.Event{ID: fmt.Sprint("late", i), Destination: "d"})
			}
			synctest.Wait()
			ds, err := g.queue.Claim(context.Background(), outbox.Claim{Max: 100, Lease: time.Millisecond})
			require.NoError(g, err)
			require.Len(g, ds, left, hanging)
		})
	}
}

// The events behind a stuck attempt return once. What the relay claims later waits for the other attempt.
func TestAStuckAttemptReturnsNoLaterEvents(t *testing.T) {
	inBubble(t, func(g *rig) {
		var hang atomic.Bool
		d := &distant{rig: g}
		stop := g.relay(d, func(ctx context.Context, ev outbox.Event) error {
			if ev.ID == "first" || hang.Load() {
				<-ctx.Done()
			}
			return ctx.Err()
		}, outbox.PerDestination(2), outbox.Drain(0), outbox.PollInterval(time.Hour))
		defer stop()
		g.enqueue(outbox.Event{ID: "first", Destination: "d"})
		time.Sleep(2 * time.Second)
		g.fill("d", 20, unordered) // so many deliveries in a second let the relay claim as many
		time.Sleep(500 * time.Millisecond)
		hang.Store(true)
		g.enqueue(outbox.Event{ID: "second", Destination: "d"}, outbox.Event{ID: "waits", Destination: "d"})
		time.Sleep(10 * time.Millisecond)
		claims, settles := d.claims.Load(), d.settles.Load()
		time.Sleep(900 * time.Millisecond)
		require.Equal(g, []int64{claims, settles}, []int64{d.claims.Load(), d.settles.Load()})
		ds, err := g.queue.Claim(context.Background(), outbox.Claim{Max: 100, Lease: time.Millisecond})
		require.NoError(g, err)
		require.Empty(g, ds)
	})
}

// A claim is a round trip. The relay makes one when half of its buffer is free.
func TestAStuckAttemptIsNoReasonForMoreClaims(t *testing.T) {
	inBubble(t, func(g *rig) {
		const events, half = 1024, 64 / 2
		g.enqueue(outbox.Event{ID: "k", Destination: "hangs"})
		for i := range events {
			g.enqueue(outbox.Event{ID: "k", Destination: fmt.Sprint("d", i)})
		}
		d := &distant{rig: g}
		stop := g.relay(spoiled{Queue: d}, func(ctx context.Context, ev outbox.Event) error {
			if ev.Destination == "hangs" {
				<-ctx.Done()
				return ctx.Err()
			}
			time.Sleep(50 * time.Millisecond)
			return nil
		}, outbox.Workers(1), outbox.PerDestination(4), outbox.AttemptTimeout(time.Hour), outbox.Drain(0),
			outbox.PollInterval(time.Hour))
		time.Sleep(events * 50 * time.Millisecond)
		claims := d.claims.Load()
		stop()
		require.LessOrEqual(g, claims, int64(2*events/half)) // a settlement that ends meanwhile may make another one
	})
}
