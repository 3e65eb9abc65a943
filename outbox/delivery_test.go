package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/memoutbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

func TestLeaseIsRenewedWhileADeliveryRuns(t *testing.T) {
	inBubble(t, func(g *rig) {
		var seen record
		g.enqueue(outbox.Event{ID: "k"})
		publish := func(_ context.Context, ev outbox.Event) error {
			seen.add(ev)
			time.Sleep(20 * time.Second)
			return nil
		}
		for range 2 {
			stop := g.relay(g.queue, publish, outbox.LeaseTTL(time.Second))
			defer stop()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(g, []string{"k"}, seen.all())
		g.stats(0, 0)
	})
}

func TestLostLeaseCancelsTheDelivery(t *testing.T) {
	for rule, failure := range map[string]error{
		"when the queue reports it":                     store.ErrLost,
		"when the queue reports nothing for its length": store.ErrUnavailable,
	} {
		t.Run(rule, func(t *testing.T) {
			inBubble(t, func(g *rig) {
				g.enqueue(outbox.Event{ID: "k"})
				var cause error
				q := spoiled{Queue: g.queue, extend: func() error { return failure }}
				var seen record
				stop := g.relay(q, func(ctx context.Context, ev outbox.Event) error {
					if seen.add(ev) > 1 {
						return nil
					}
					<-ctx.Done()
					cause = context.Cause(ctx)
					return ctx.Err()
				}, outbox.LeaseTTL(3*time.Second), constant(5, time.Minute))
				defer stop()
				time.Sleep(10 * time.Second)
				synctest.Wait()
				require.ErrorIs(g, cause, store.ErrLost)
				time.Sleep(time.Hour)
				synctest.Wait()
				require.Equal(g, []string{"k", "k"}, seen.all())
			})
		})
	}
}

// A publisher may have begun something that watches the context.
func TestTheContextOfAnAttemptEndsWithTheAttempt(t *testing.T) {
	inBubble(t, func(g *rig) {
		var given context.Context
		stop := g.relay(g.queue, func(ctx context.Context, _ outbox.Event) error {
			given = ctx
			return ctx.Err()
		})
		defer stop()
		g.enqueue(outbox.Event{ID: "k"})
		synctest.Wait()
		g.stats(0, 0)
		require.ErrorIs(g, given.Err(), context.Canceled)
	})
}

func TestPublisherThatBreaksIsContained(t *testing.T) {
	for rule, breaks := range map[string]func(){
		"panic":  func() { panic("boom") },
		"goexit": runtime.Goexit,
	} {
		t.Run(rule, func(t *testing.T) {
			inBubble(t, func(g *rig) {
				var seen record
				g.enqueue(outbox.Event{ID: "breaks"}, outbox.Event{ID: "fine"})
				stop := g.relay(g.queue, func(_ context.Context, ev outbox.Event) error {
					if seen.add(ev); ev.ID == "breaks" {
						breaks()
					}
					return nil
				}, constant(2, time.Second))
				defer stop()
				time.Sleep(time.Minute)
				synctest.Wait()
				require.ElementsMatch(g, []string{"breaks", "breaks", "fine"}, seen.all())
				g.stats(0, 1)
			})
		})
	}
}

func TestEventThatKillsItsRelayIsGivenUp(t *testing.T) {
	inBubble(t, func(g *rig) {
		g.enqueue(outbox.Event{ID: "killer"})
		for range 2 { // relays that die in their attempts
			ds, err := g.queue.Claim(context.Background(), outbox.Claim{Max: 1, Lease: time.Second})
			require.NoError(g, err)
			require.Len(g, ds, 1)
			time.Sleep(2 * time.Second)
		}
		stop := g.relay(g.queue, func(context.Context, outbox.Event) error {
			panic("it was tried once more")
		}, constant(2, time.Second))
		defer stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		letters := g.letters()
		require.Len(g, letters, 1)
		require.Equal(g, taxonomy.OutcomeUnknown, letters[0].Failure().Code)
	})
}

// Each attempt of the longer schedule has ended, so the reason must not claim that a relay died.
func TestEventOfALongerScheduleIsGivenUp(t *testing.T) {
	inBubble(t, func(g *rig) {
		g.enqueue(outbox.Event{ID: "k"})
		fails := func(context.Context, outbox.Event) error { return errors.New("refused") }
		stop := g.relay(g.queue, fails, constant(10, time.Minute))
		time.Sleep(150 * time.Second) // three attempts
		stop()
		stop = g.relay(g.queue, fails, constant(2, time.Minute))
		defer stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		letters := g.letters()
		require.Len(g, letters, 1)
		require.Len(g, letters[0].History, 4)
		require.Contains(g, letters[0].Failure().Reason, "the schedule is shorter now")
	})
}

func TestAttemptHasItsTime(t *testing.T) {
	inBubble(t, func(g *rig) {
		g.enqueue(outbox.Event{ID: "k"})
		var took time.Duration
		stop := g.relay(g.queue, func(ctx context.Context, _ outbox.Event) error {
			start := time.Now()
			<-ctx.Done()
			took = time.Since(start)
			return ctx.Err()
		}, outbox.Retry(), outbox.AttemptTimeout(7*time.Second))
		defer stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(g, 7*time.Second, took)
		require.Equal(g, taxonomy.Timeout, g.letters()[0].Failure().Code)
	})
}

func TestEndOfTheRelay(t *testing.T) {
	const takes = 10 * time.Second
	slow := func(ctx context.Context, _ outbox.Event) error {
		select {
		case <-time.After(takes):
			return nil
		case <-ctx.Done():
			return fmt.Errorf("broken off: %w", ctx.Err())
		}
	}
	t.Run("deliveries under way are finished", func(t *testing.T) {
		inBubble(t, func(g *rig) {
			g.enqueue(outbox.Event{ID: "k"})
			stop := g.relay(g.queue, slow)
			synctest.Wait()
			start := time.Now()
			stop()
			require.Equal(g, takes, time.Since(start))
			g.stats(0, 0)
		})
	})
	t.Run("those that take too long go back, and are not counted", func(t *testing.T) {
		inBubble(t, func(g *rig) {
			g.enqueue(outbox.Event{ID: "k"})
			stop := g.relay(g.queue, slow, outbox.Drain(time.Second))
			synctest.Wait()
			start := time.Now()
			stop()
			require.Equal(g, time.Second, time.Since(start))
			ds, err := g.queue.Claim(context.Background(), outbox.Claim{Max: 1, Lease: time.Second})
			require.NoError(g, err)
			require.Len(g, ds, 1)
			require.Equal(g, 1, ds[0].Attempt)
		})
	})
	t.Run("one that fails in its publisher meanwhile is counted", func(t *testing.T) {
		inBubble(t, func(g *rig) {
			g.enqueue(outbox.Event{ID: "k"})
			stop := g.relay(g.queue, func(ctx context.Context, _ outbox.Event) error {
				<-ctx.Done()
				return outbox.Reject(errors.New("no such hook"))
			}, outbox.Drain(0))
			synctest.Wait()
			stop()
			g.stats(0, 1)
		})
	})
	t.Run("an ended context begins nothing", func(t *testing.T) {
		inBubble(t, func(g *rig) {
			g.enqueue(outbox.Event{ID: "k"})
			r, err := outbox.NewRelay(g.queue, outbox.PublisherFunc(func(context.Context, outbox.Event) error {
				panic("it ran")
			}))
			require.NoError(g, err)
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			require.NoError(g, r.Run(ctx))
			g.stats(1, 0)
			require.Zero(g, outbox.Running(r), "nothing of the run is kept")
		})
	})
	t.Run("the queue is not in use any more", func(t *testing.T) {
		inBubble(t, func(g *rig) {
			q := &leaving{Queue: g.queue}
			stop := g.relay(q, slow, outbox.QueueTimeout(time.Hour))
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			require.EqualValues(g, 2, q.calls.Load())
			stop()
			require.Zero(g, q.calls.Load())
		})
	})
}

// The calls of Watch and Purge of a leaving queue end a second after their context.
type leaving struct {
	*memoutbox.Queue
	calls atomic.Int32 // under way
}

func (l *leaving) leave(ctx context.Context) {
	l.calls.Add(1)
	<-ctx.Done()
	time.Sleep(time.Second)
	l.calls.Add(-1)
}

func (l *leaving) Watch(ctx context.Context, _ func()) error {
	l.leave(ctx)
	return nil
}

func (l *leaving) Purge(ctx context.Context, _ time.Duration, _ int) (int, error) {
	l.leave(ctx)
	return 0, ctx.Err()
}

// The pauses between the tries double from 50 ms.
func TestSettlementIsTriedFiveTimesWithinTheQueueTimeout(t *testing.T) {
	for timeout, want := range map[time.Duration]int{100 * time.Millisecond: 2, outbox.DefaultQueueTimeout: 5} {
		inBubble(t, func(g *rig) {
			g.enqueue(outbox.Event{ID: "k"})
			tries := 0
			stop := g.relay(spoiled{Queue: g.queue, settle: func() error { tries++; return store.ErrUnavailable }},
				func(context.Context, outbox.Event) error { return nil }, outbox.QueueTimeout(timeout))
			time.Sleep(5 * time.Second)
			stop()
			require.Equal(g, want, tries, timeout)
		})
	}
}

func TestSettlementIsTriedAgain(t *testing.T) {
	for _, c := range []struct {
		rule    string
		answers []error
		want    outbox.Result
		left    int
	}{
		{"while the queue does not respond", []error{store.ErrUnavailable, store.ErrUnavailable}, outbox.Sent, 0},
		{"when its response was lost", []error{store.ErrUnknown}, outbox.Sent, 0},
		{
			"and a lease that is gone after a lost response is the settlement's own",
			[]error{store.ErrUnknown, store.ErrLost}, outbox.Sent, 1,
		},
		{"but not when the lease is lost", []error{store.ErrLost}, 0, 1},
	} {
		t.Run(c.rule, func(t *testing.T) {
			inBubble(t, func(g *rig) {
				g.enqueue(outbox.Event{ID: "k"})
				answers := c.answers
				q := spoiled{Queue: g.queue, settle: func() error {
					if len(answers) == 0 {
						return nil
					}
					err := answers[0]
					answers = answers[1:]
					return err
				}}
				var seen recorder
				stop := g.relay(q, func(context.Context, outbox.Event) error {
					return nil
				}, outbox.Observe(&seen), outbox.LeaseTTL(time.Hour))
				defer stop()
				time.Sleep(30 * time.Second)
				synctest.Wait()
				require.Len(g, seen.attempts, 1)
				require.Equal(g, c.want, seen.attempts[0].Result)
				g.stats(c.left, 0)
			})
		})
	}
}
