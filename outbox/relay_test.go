package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

func TestRelayWakesAtOnce(t *testing.T) {
	inBubble(t, func(g *rig) {
		var seen record
		stop := g.relay(g.queue, func(_ context.Context, ev outbox.Event) error {
			seen.add(ev)
			return nil
		}, outbox.PollInterval(time.Hour))
		defer stop()
		synctest.Wait()
		start := time.Now()
		g.enqueue(outbox.Event{ID: "a1", OrderingKey: "a"}, outbox.Event{ID: "a2", OrderingKey: "a"},
			outbox.Event{ID: "a3", OrderingKey: "a"})
		synctest.Wait()
		require.Equal(g, []string{"a1", "a2", "a3"}, seen.all())
		require.Zero(g, time.Since(start))
		g.stats(0, 0)
	})
}

// A claim holds some events of a line. The relay asks for the next ones when these are settled, and after a dead letter.
func TestALongLineGoesOnWithoutAWatch(t *testing.T) {
	inBubble(t, func(g *rig) {
		var seen record
		g.fill("d", 100, func(int) string { return "line" })
		stop := g.relay(&counted{Queue: g.queue}, func(_ context.Context, ev outbox.Event) error {
			if seen.add(ev); len(seen.all())%10 == 1 {
				return outbox.Reject(errors.New("malformed"))
			}
			return nil
		}, outbox.PollInterval(time.Hour))
		defer stop()
		synctest.Wait()
		require.Len(g, seen.all(), 100)
		g.stats(0, 10)
	})
}

func TestRelayFindsWhatNobodyToldItOf(t *testing.T) {
	inBubble(t, func(g *rig) {
		var seen record
		// Without the methods of a Watcher and a Backlog.
		stop := g.relay(struct{ outbox.Queue }{g.queue}, func(_ context.Context, ev outbox.Event) error {
			seen.add(ev)
			return nil
		})
		defer stop()
		synctest.Wait()
		g.enqueue(outbox.Event{ID: "k"})
		time.Sleep(2 * outbox.DefaultPollInterval)
		synctest.Wait()
		require.Equal(g, []string{"k"}, seen.all())
	})
}

func TestFailedEventIsTriedAgainAndThenDead(t *testing.T) {
	inBubble(t, func(g *rig) {
		var at []time.Duration
		start := time.Now()
		g.enqueue(outbox.Event{ID: "k"})
		stop := g.relay(g.queue, func(context.Context, outbox.Event) error {
			at = append(at, time.Since(start))
			return fmt.Errorf("hook: %w", taxonomy.Unavailable)
		}, constant(3, time.Minute), outbox.PollInterval(100*time.Millisecond))
		defer stop()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		require.Len(g, at, 3)
		for n, d := range at { // never early, and late by a poll at most
			require.Equal(g, time.Duration(n)*time.Minute, d.Truncate(time.Second))
		}
		letters := g.letters()
		require.Len(g, letters, 1)
		require.Equal(g, 3, letters[0].Attempts)
		require.Equal(g, outbox.Failure{Code: taxonomy.Unavailable, Reason: "hook: DEPENDENCY.unavailable"},
			letters[0].Failure())
		require.Len(g, letters[0].History, 3)
		require.NoError(g, g.queue.Redrive(context.Background(), "k", ""))
		require.NoError(g, g.queue.Enable(context.Background(), "")) // nothing was ever delivered to it
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		require.Len(g, at, 6, "a redriven event has a whole schedule")
	})
}

func TestPoisonBlocksItsOwnKeyAlone(t *testing.T) {
	for _, c := range []struct {
		rule string
		opts []outbox.Option
		want []string
	}{
		{"until it is dead", nil, []string{"a2"}},
		{"for good, where keys are held", []outbox.Option{outbox.HoldKeys()}, nil},
	} {
		t.Run(c.rule, func(t *testing.T) {
			inBubble(t, func(g *rig) {
				var seen record
				g.enqueue(outbox.Event{ID: "poison", OrderingKey: "a"}, outbox.Event{ID: "a2", OrderingKey: "a"},
					outbox.Event{ID: "b1", OrderingKey: "b"}, outbox.Event{ID: "b2", OrderingKey: "b"},
					outbox.Event{ID: "free"})
				stop := g.relay(g.queue, func(_ context.Context, ev outbox.Event) error {
					if ev.ID == "poison" {
						return errors.New("no")
					}
					seen.add(ev)
					return nil
				}, append(c.opts, constant(2, time.Minute), outbox.Workers(1))...)
				defer stop()
				time.Sleep(30 * time.Second)
				synctest.Wait()
				require.ElementsMatch(g, []string{"b1", "b2", "free"}, seen.all())
				time.Sleep(time.Hour)
				synctest.Wait()
				require.Equal(g, c.want, append([]string(nil), seen.all()[3:]...))
			})
		})
	}
}

func TestQueueThatFailsIsAskedAgain(t *testing.T) {
	inBubble(t, func(g *rig) {
		var seen record
		failures := 5
		q := spoiled{Queue: g.queue, claim: func() error {
			if failures--; failures >= 0 {
				return fmt.Errorf("no response: %w", store.ErrUnavailable)
			}
			return nil
		}}
		g.enqueue(outbox.Event{ID: "k"})
		stop := g.relay(q, func(_ context.Context, ev outbox.Event) error { seen.add(ev); return nil })
		defer stop()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Equal(g, []string{"k"}, seen.all())
	})
}

func TestWorkersAreBounded(t *testing.T) {
	inBubble(t, func(g *rig) {
		var mu sync.Mutex
		busy, most := 0, 0
		change := func(by int) {
			mu.Lock()
			defer mu.Unlock()
			busy += by
			most = max(most, busy)
		}
		for i := range 20 {
			g.enqueue(outbox.Event{ID: fmt.Sprint("k", i)})
		}
		var seen record
		stop := g.relay(g.queue, func(ctx context.Context, ev outbox.Event) error {
			change(1)
			time.Sleep(time.Second)
			change(-1)
			seen.add(ev)
			return nil
		}, outbox.Workers(4))
		defer stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(g, seen.all(), 20)
		require.Equal(g, 4, most)
	})
}

func TestSentEventsArePurged(t *testing.T) {
	inBubble(t, func(g *rig) {
		g.enqueue(outbox.Event{ID: "k"})
		stop := g.relay(g.queue, func(context.Context, outbox.Event) error {
			return nil
		}, outbox.Retention(time.Hour), outbox.PollInterval(time.Hour))
		defer stop()
		time.Sleep(59 * time.Minute)
		require.Error(g, g.taken("k"))
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		require.NoError(g, g.taken("k"))
	})
}

// taken returns the error of enqueueing an event with the id, which is then not enqueued.
func (g *rig) taken(id string) error {
	tx := g.queue.Begin()
	_, err := g.queue.Enqueue(context.Background(), tx, outbox.Event{ID: id})
	require.NoError(g, tx.Rollback())
	return err
}
