package outbox_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/taxonomy"
)

func (g *rig) disabled(want ...string) []outbox.DisabledDestination {
	g.Helper()
	found, err := g.queue.Disabled(context.Background())
	require.NoError(g, err)
	names := []string{}
	for _, d := range found {
		names = append(names, d.Destination)
	}
	require.Equal(g, append([]string{}, want...), names)
	return found
}

func TestGoneDestinationIsDisabledUntilEnable(t *testing.T) {
	inBubble(t, func(g *rig) {
		var log bytes.Buffer
		var notified []outbox.DisabledDestination
		var given context.Context // a callback may have begun something that watches it
		here, tries := false, 0
		r, err := outbox.NewRelay(g.queue, outbox.PublisherFunc(func(_ context.Context, ev outbox.Event) error {
			if ev.Destination == "https://u:secret@shop.example/hook?secret" && !here {
				tries++
				return &redo.Error{Code: taxonomy.Gone, StatusCode: 410}
			}
			return nil
		}), outbox.OnDisabled(func(ctx context.Context, d outbox.DisabledDestination) {
			given, notified = ctx, append(notified, d)
		}),
			outbox.Logger(slog.New(slog.NewJSONHandler(&log, nil))), outbox.Workers(1),
			outbox.PollInterval(time.Minute))
		require.NoError(g, err)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		for _, id := range []string{"a", "b", "c"} {
			g.enqueue(outbox.Event{ID: id, Destination: "https://u:secret@shop.example/hook?secret"},
				outbox.Event{ID: id, Destination: "other"})
		}
		time.Sleep(10 * 24 * time.Hour)
		synctest.Wait()
		g.stats(3, 0)
		require.Equal(g, 1, tries)
		found := g.disabled("https://u:secret@shop.example/hook?secret")
		require.Equal(g, 410, found[0].Why.Status)
		require.Len(g, notified, 1)
		require.Equal(g, found[0].Destination, notified[0].Destination)
		require.Contains(g, log.String(), `"host":"shop.example"`)
		require.NotContains(g, log.String(), "secret")
		here = true
		require.NoError(g, r.Enable(context.Background(), found[0].Destination))
		synctest.Wait()
		g.stats(0, 0)
		g.disabled()
		here = false
		g.enqueue(outbox.Event{ID: "d", Destination: found[0].Destination})
		synctest.Wait()
		here = true
		require.NoError(g, r.Enable(context.Background(), found[0].Destination))
		synctest.Wait()
		g.stats(0, 0) // the relay forgets the failure too
		require.NoError(g, given.Err())
		cancel()
		require.NoError(g, <-ended)
		require.Error(g, given.Err())
	})
}

// A destination may be a name, and need not be one that parses as a URL.
func TestTheLogOfADisabledDestinationHasAHostIfItIsAURL(t *testing.T) {
	for _, name := range []string{"hooks", "100% off"} {
		inBubble(t, func(g *rig) {
			var log bytes.Buffer
			g.enqueue(outbox.Event{ID: "k", Destination: name})
			stop := g.relay(g.queue, func(context.Context, outbox.Event) error { return outbox.Gone(errors.New("no")) },
				outbox.Logger(slog.New(slog.NewJSONHandler(&log, nil))))
			synctest.Wait()
			stop()
			g.disabled(name)
			require.Contains(g, log.String(), "destination disabled")
			require.NotContains(g, log.String(), `"host"`)
		})
	}
}

// An operator may enable a destination by another process: the relay finds that out without a call.
func TestDestinationIsEnabledElsewhere(t *testing.T) {
	inBubble(t, func(g *rig) {
		here := false
		g.fill("d", 2, unordered) // the second one fails after the relay has disabled the destination
		defer g.relay(g.queue, func(context.Context, outbox.Event) error {
			if !here {
				return outbox.Gone(errors.New("no such topic"))
			}
			return nil
		})()
		time.Sleep(time.Hour)
		g.disabled("d")
		require.NoError(g, g.queue.Enable(context.Background(), "d"))
		time.Sleep(time.Hour)
		g.disabled("d") // it is still gone
		here = true
		require.NoError(g, g.queue.Enable(context.Background(), "d"))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		g.stats(0, 0)
	})
}

func TestDestinationIsDisabledWhenAScheduleIsUsedUp(t *testing.T) {
	for _, c := range []struct {
		rule     string
		deliver  func(n int, ev outbox.Event) bool
		disabled []string
		dead     int
	}{
		{"and nothing was delivered", func(int, outbox.Event) bool { return false }, []string{"d"}, 1},
		{
			"but not if another event was delivered", func(_ int, ev outbox.Event) bool { return ev.ID == "good" },
			nil, 1,
		},
	} {
		t.Run(c.rule, func(t *testing.T) {
			inBubble(t, func(g *rig) {
				var seen record
				defer g.relay(g.queue, func(_ context.Context, ev outbox.Event) error {
					if c.deliver(seen.add(ev), ev) {
						return nil
					}
					return &redo.Error{Code: taxonomy.NotFound, StatusCode: 404}
				}, outbox.PollInterval(time.Minute))()
				g.enqueue(outbox.Event{ID: "bad", Destination: "d"})
				time.Sleep(24 * time.Hour)
				g.enqueue(outbox.Event{ID: "good", Destination: "d"})
				time.Sleep(66 * time.Hour) // the schedule of bad is over, that of good is not
				synctest.Wait()
				require.Len(g, g.letters(), c.dead)
				require.Len(g, g.letters()[0].History, len(outbox.Schedule())+1)
				g.disabled(c.disabled...)
			})
		})
	}
}

// A relay that is younger than the schedule of an event has seen few failures. It needs as many as its breaker, or one.
func TestAYoungRelayDisablesADestinationAfterTheFailuresOfItsBreaker(t *testing.T) {
	for breaker, disabled := range map[int][]string{0: {"d"}, 1: {"d"}, 2: nil} {
		inBubble(t, func(g *rig) {
			g.enqueue(outbox.Event{ID: "k", Destination: "d"})
			ds, err := g.queue.Claim(context.Background(), outbox.Claim{Max: 1, Lease: time.Minute})
			require.NoError(g, err)
			require.Len(g, ds, 1)
			time.Sleep(time.Hour) // its relay is dead
			defer g.relay(g.queue, func(context.Context, outbox.Event) error {
				return errors.New("no")
			}, constant(2, time.Minute), outbox.Breaker(breaker))()
			time.Sleep(time.Minute)
			g.stats(0, 1)
			g.disabled(disabled...)
		})
	}
}

// A sharedQueue gives events to its relay only while next is the relay's number.
type sharedQueue struct {
	outbox.Queue
	relay int64
	next  *atomic.Int64
}

func (q sharedQueue) Claim(ctx context.Context, c outbox.Claim) ([]outbox.Delivery, error) {
	if q.next.Load() != q.relay {
		return nil, nil
	}
	return q.Queue.Claim(ctx, c)
}

// A relay does not see the deliveries of the others.
func TestDestinationToWhichAnotherRelayDeliversIsNotDisabled(t *testing.T) {
	inBubble(t, func(g *rig) {
		var next, tries atomic.Int64
		var delivered [2]atomic.Int64
		for i := range delivered {
			defer g.relay(sharedQueue{g.queue, int64(i), &next}, func(_ context.Context, ev outbox.Event) error {
				if ev.ID != "bad" {
					delivered[i].Add(1)
					return nil
				}
				next.Store(tries.Add(1) % 2) // each makes five of the ten attempts
				return &redo.Error{Code: taxonomy.BadRequest, StatusCode: 400}
			}, outbox.PollInterval(time.Minute))()
		}
		time.Sleep(time.Hour)
		g.enqueue(outbox.Event{ID: "bad", Destination: "d"})
		for range 20 {
			time.Sleep(5 * time.Hour)
			if next.Load() == 0 {
				g.enqueue(outbox.Event{Destination: "d"})
			}
		}
		time.Sleep(time.Hour)
		require.Len(g, g.letters(), 1)
		require.Positive(g, delivered[0].Load())
		require.Zero(g, delivered[1].Load())
		g.disabled()
	})
}

// Its own failures are days apart, and it delivers nothing in between.
func TestRareFailuresOfOneRelayDisableNothing(t *testing.T) {
	inBubble(t, func(g *rig) {
		var next atomic.Int64
		for i := range int64(2) {
			defer g.relay(sharedQueue{g.queue, i, &next}, func(context.Context, outbox.Event) error {
				if next.Store(0); i == 0 {
					return nil
				}
				return &redo.Error{Code: taxonomy.Unavailable, StatusCode: 503}
			}, outbox.PollInterval(time.Minute))()
		}
		for range 6 {
			next.Store(1)
			g.enqueue(outbox.Event{Destination: "d"})
			time.Sleep(48 * time.Hour)
			g.stats(0, 0)
		}
		g.disabled()
	})
}

// Attempts that sent nothing are not counted: the destination is disabled all the same, and its events live.
func TestUnreachableDestinationIsDisabledAfterDays(t *testing.T) {
	inBubble(t, func(g *rig) {
		g.enqueue(outbox.Event{ID: "k", Destination: "d"})
		defer g.relay(g.queue, func(context.Context, outbox.Event) error {
			return outbox.NotSent(errors.New("refused"))
		},
			outbox.PollInterval(time.Minute))()
		time.Sleep(3 * 24 * time.Hour)
		g.disabled()
		time.Sleep(24 * time.Hour)
		g.disabled("d")
		g.stats(1, 0)
		for e, err := range g.queue.Events(context.Background(), outbox.Selection{}) {
			require.NoError(g, err)
			require.Zero(g, e.Attempts)
		}
	})
}

func TestAttemptThatSentNothingIsNotCounted(t *testing.T) {
	inBubble(t, func(g *rig) {
		tries := 0
		g.enqueue(outbox.Event{ID: "k", Destination: "d"})
		var seen recorder
		defer g.relay(g.queue, func(context.Context, outbox.Event) error {
			if tries++; tries <= 20 {
				return outbox.NotSent(taxonomy.Unavailable)
			}
			return nil
		}, outbox.Observe(&seen), outbox.Retry())() // one attempt
		time.Sleep(time.Hour)
		synctest.Wait()
		g.stats(0, 0)
		require.Len(g, seen.attempts, 21)
		require.Equal(g, outbox.Released, seen.attempts[0].Result)
		require.Equal(g, taxonomy.Unavailable, seen.attempts[0].Code)
		require.Equal(g, 1, seen.attempts[20].Number)
	})
}

func TestDestinationRestsAfterFailures(t *testing.T) {
	inBubble(t, func(g *rig) {
		g.fill("d", 1000, unordered)
		var tries atomic.Int64
		defer g.relay(g.queue, func(context.Context, outbox.Event) error {
			tries.Add(1)
			return taxonomy.Unavailable
		})()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		require.Less(g, tries.Load(), int64(40), "single probes")
		require.Greater(g, tries.Load(), int64(10))
	})
}

// The first rest begins with the last of the failures that the option allows, and lasts for a second at least.
func TestDestinationRestsAfterAsManyFailuresAsTheBreakerHas(t *testing.T) {
	for _, failures := range []int{1, 2, outbox.DefaultBreaker} {
		inBubble(t, func(g *rig) {
			g.fill("d", 100, unordered)
			var tries atomic.Int64
			defer g.relay(g.queue, func(context.Context, outbox.Event) error {
				tries.Add(1)
				return taxonomy.Unavailable
			}, outbox.Breaker(failures), outbox.PerDestination(1))()
			time.Sleep(time.Second - 1)
			require.EqualValues(g, failures, tries.Load())
		})
	}
}

func TestRetryAfterOf429HoldsForTheDestination(t *testing.T) {
	inBubble(t, func(g *rig) {
		g.fill("d", 100, unordered)
		var tries atomic.Int64
		start := time.Now()
		defer g.relay(g.queue, func(context.Context, outbox.Event) error {
			if tries.Add(1); time.Since(start) < 10*time.Minute {
				return &redo.Error{Code: taxonomy.RateLimited, StatusCode: 429, RetryAt: start.Add(10 * time.Minute)}
			}
			return nil
		}, outbox.PerDestination(1))()
		time.Sleep(9 * time.Minute)
		require.EqualValues(g, 1, tries.Load())
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		g.stats(0, 0)
	})
}

func TestLineOfAFailedEventIsReleasedWithIt(t *testing.T) {
	for rule, opts := range map[string][]outbox.Option{
		"failed": nil, "dead, and keys are held": {outbox.HoldKeys(), outbox.Retry()},
	} {
		t.Run(rule, func(t *testing.T) {
			inBubble(t, func(g *rig) {
				g.fill("d", 4, func(int) string { return "a" })
				d := &distant{rig: g}
				var seen record
				stop := g.relay(d, func(_ context.Context, ev outbox.Event) error {
					if seen.add(ev); ev.ID == "d-00001" {
						return errors.New("no")
					}
					return nil
				}, opts...)
				defer stop()
				time.Sleep(500 * time.Millisecond)
				require.Equal(g, []string{"d-00000", "d-00001"}, seen.all())
				require.EqualValues(g, 4, d.settled.Load())
				require.LessOrEqual(g, d.settles.Load(), int64(2))
				stop()
				ds, err := g.queue.Claim(context.Background(),
					outbox.Claim{Max: 10, Lease: time.Second, HoldKeys: len(opts) > 0})
				require.NoError(g, err)
				require.Empty(g, ds)
			})
		})
	}
}

func TestEventsThatCannotStartReturnToTheQueue(t *testing.T) {
	for rule, c := range map[string]struct {
		key     func(int) string
		publish func(ctx context.Context, delivered int) error
		held    int64
	}{
		"behind a stuck attempt": {func(int) string { return "a" }, func(ctx context.Context, _ int) error {
			<-ctx.Done()
			return ctx.Err()
		}, 1},
		"of a destination that rests": {unordered, func(_ context.Context, delivered int) error {
			if time.Sleep(time.Millisecond); delivered < 20 {
				return nil
			}
			return &redo.Error{Code: taxonomy.Unavailable, StatusCode: 503, RetryAt: time.Now().Add(time.Hour)}
		}, 0},
	} {
		t.Run(rule, func(t *testing.T) {
			inBubble(t, func(g *rig) {
				g.fill("d", 1000, c.key)
				d := &distant{rig: g}
				var seen record
				stop := g.relay(d, func(ctx context.Context, ev outbox.Event) error {
					defer seen.add(ev)
					return c.publish(ctx, len(seen.all()))
				}, outbox.Drain(0))
				defer stop()
				time.Sleep(2 * time.Second)
				synctest.Wait()
				require.Equal(g, c.held, d.claimed.Load()-d.settled.Load())
				require.Greater(g, d.settled.Load(), int64(len(seen.all())), "some were returned")
			})
		})
	}
}
