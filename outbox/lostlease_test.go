package outbox_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
)

// A relay that can't renew its leases gives up a delivery that it has begun. The destination has not failed, so the
// event must not wait for a time of the schedule, and its history must not blame the destination.
func TestADeliveryWithoutALeaseIsNoFailureOfTheDestination(t *testing.T) {
	for name, lost := range map[string]error{
		"the queue can't be reached": store.ErrUnavailable, "another relay may have it": store.ErrLost,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(g *rig) {
				g.enqueue(outbox.Event{ID: "k", Destination: "d"})
				down := true
				q := &counted{Queue: spoiled{Queue: g.queue, extend: func() error {
					if down {
						return lost
					}
					return nil
				}}}
				var seen record
				var watch recorder
				stop := g.relay(q, func(ctx context.Context, ev outbox.Event) error {
					if seen.add(ev) > 1 {
						return nil
					}
					<-ctx.Done()
					down = false
					return fmt.Errorf("broken off: %w", ctx.Err())
				}, constant(9, time.Hour), outbox.AttemptTimeout(time.Hour), outbox.Observe(&watch))
				defer stop()
				time.Sleep(3 * outbox.DefaultLeaseTTL)
				synctest.Wait()
				require.Equal(g, []string{"k", "k"}, seen.all(), "it came again when its lease had ended")
				g.stats(0, 0)
				require.Len(g, watch.attempts, 2)
				first := watch.attempts[0]
				require.Zero(g, first.Result)
				require.Empty(g, first.Code)
				require.ErrorIs(g, first.Err, store.ErrLost)
				require.Equal(g, 2, watch.attempts[1].Number, "the attempt stays counted")
				require.Equal(g, map[outbox.Result]int{outbox.Sent: 1}, q.results, "the lost lease was not settled")
				require.Positive(g, watch.counts["Extend"], "the renewals are observed")
			})
		})
	}
}

// An event that was delivered although its lease could not be renewed is settled, if nobody else has claimed it.
func TestADeliveryThatSucceedsWithoutALeaseIsSettled(t *testing.T) {
	inBubble(t, func(g *rig) {
		g.enqueue(outbox.Event{ID: "k"})
		q := spoiled{Queue: g.queue, extend: func() error { return store.ErrUnavailable }}
		var seen record
		stop := g.relay(q, func(ctx context.Context, ev outbox.Event) error {
			seen.add(ev)
			<-ctx.Done() // the response had arrived before
			return nil
		}, outbox.AttemptTimeout(time.Hour), outbox.PollInterval(time.Hour))
		defer stop()
		time.Sleep(2 * outbox.DefaultLeaseTTL)
		synctest.Wait()
		require.Equal(g, []string{"k"}, seen.all())
		g.stats(0, 0)
	})
}

// An attempt that lost its lease before it sent anything is not counted, as every other one that sent nothing.
func TestAnAttemptWithoutALeaseThatSentNothingIsNotCounted(t *testing.T) {
	inBubble(t, func(g *rig) {
		g.enqueue(outbox.Event{ID: "k"})
		down := true
		q := spoiled{Queue: g.queue, extend: func() error {
			if down {
				return store.ErrUnavailable
			}
			return nil
		}}
		var seen record
		var watch recorder
		stop := g.relay(q, func(ctx context.Context, ev outbox.Event) error {
			if seen.add(ev) > 1 {
				return nil
			}
			<-ctx.Done()
			down = false
			return outbox.NotSent(ctx.Err())
		}, outbox.AttemptTimeout(time.Hour), outbox.PollInterval(time.Minute), outbox.Observe(&watch))
		defer stop()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		g.stats(0, 0)
		require.Len(g, watch.attempts, 2)
		require.Equal(g, outbox.Released, watch.attempts[0].Result)
		require.Equal(g, 1, watch.attempts[1].Number)
	})
}

// silent is a queue that does not respond to Extend.
type silent struct{ outbox.Queue }

func (silent) Extend(ctx context.Context, _ time.Duration, _ ...outbox.Lease) ([]outbox.Lease, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Another relay may claim the event then, and would deliver it at the same time.
func TestADeliveryIsCutAtTheEndOfItsLease(t *testing.T) {
	refuses := func(q outbox.Queue) outbox.Queue {
		return spoiled{Queue: q, extend: func() error { return store.ErrUnavailable }}
	}
	for name, broken := range map[string]func(outbox.Queue) outbox.Queue{
		"the queue refuses": refuses, "the queue is silent": func(q outbox.Queue) outbox.Queue { return silent{q} },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(g *rig) {
				var took time.Duration
				stop := g.relay(broken(g.queue), func(ctx context.Context, _ outbox.Event) error {
					start := time.Now()
					<-ctx.Done()
					took = time.Since(start)
					return nil
				}, outbox.AttemptTimeout(time.Hour), outbox.PollInterval(time.Second))
				time.Sleep(5 * time.Second) // the relay renews at other times
				g.enqueue(outbox.Event{ID: "k"})
				time.Sleep(time.Minute)
				stop()
				require.Equal(g, outbox.DefaultLeaseTTL, took)
			})
		})
	}
}

// firstLost reports the lease of the first event as lost with each renewal.
type firstLost struct{ outbox.Queue }

func (q firstLost) Extend(ctx context.Context, d time.Duration, leases ...outbox.Lease) ([]outbox.Lease, error) {
	_, err := q.Queue.Extend(ctx, d, leases...)
	first := slices.MinFunc(leases, func(a, b outbox.Lease) int { return cmp.Compare(a.Seq, b.Seq) })
	return []outbox.Lease{first}, err
}

// The event may have been delivered or not. Its line waits for the end of its lease, also after its last attempt.
func TestNoEventOvertakesADeliveryThatHasLostItsLease(t *testing.T) {
	for attempts, end := range map[int]outbox.Result{1: outbox.Dead, 2: outbox.Sent} {
		inBubble(t, func(g *rig) {
			g.enqueue(outbox.Event{ID: "first", OrderingKey: "a"}, outbox.Event{ID: "second", OrderingKey: "a"})
			var seen record
			var watch recorder
			stop := g.relay(firstLost{g.queue}, func(ctx context.Context, ev outbox.Event) error {
				if seen.add(ev) > 1 || ev.ID == "second" {
					return nil
				}
				<-ctx.Done()
				return ctx.Err()
			}, constant(attempts, time.Hour), outbox.LeaseTTL(time.Second), outbox.Observe(&watch))
			time.Sleep(time.Minute)
			stop()
			var ended []any
			for _, a := range watch.attempts {
				ended = append(ended, a.ID, a.Number, a.Result)
			}
			require.Equal(g, []any{
				"first", 1, outbox.Result(0), "first", attempts, end, "second", 1, outbox.Sent,
			}, ended)
		})
	}
}

// lastLost reports the leases of all events but the first as lost with each renewal.
type lastLost struct{ outbox.Queue }

func (q lastLost) Extend(_ context.Context, _ time.Duration, leases ...outbox.Lease) ([]outbox.Lease, error) {
	return slices.DeleteFunc(leases, func(l outbox.Lease) bool { return l.Seq == 1 }), nil
}

// An event that waits behind another one has no attempt that could be cut. It returns to the queue and is not tried.
func TestAnEventThatWaitsInTheRelayCanLoseItsLease(t *testing.T) {
	inBubble(t, func(g *rig) {
		g.fill("d", 3, func(int) string { return "a" })
		var seen record
		var watch recorder
		q := &counted{Queue: lastLost{g.queue}}
		stop := g.relay(q, func(_ context.Context, ev outbox.Event) error {
			if seen.add(ev); ev.ID == "d-00000" {
				time.Sleep(500 * time.Millisecond)
			}
			return nil
		}, outbox.LeaseTTL(900*time.Millisecond), outbox.Observe(&watch))
		time.Sleep(time.Minute)
		stop()
		require.Equal(g, []string{"d-00000", "d-00001", "d-00002"}, seen.all())
		require.Equal(g, map[outbox.Result]int{outbox.Sent: 3, outbox.Released: 2}, q.results)
		for _, a := range watch.attempts {
			require.Equal(g, 1, a.Number)
		}
		g.stats(0, 0)
	})
}

// lateClaim returns the first claim after 65 s, as in a process that was stopped meanwhile. No renewal comes then.
type lateClaim struct {
	outbox.Queue
	claims atomic.Int32
}

func (q *lateClaim) Claim(ctx context.Context, c outbox.Claim) ([]outbox.Delivery, error) {
	ds, err := q.Queue.Claim(ctx, c)
	if q.claims.Add(1) == 1 {
		time.Sleep(65 * time.Second)
	}
	return ds, err
}

// Another relay may have delivered it meanwhile, and an operator may have dropped it.
func TestAnEventWhoseLeaseEndedBeforeItsDeliveryIsNotDelivered(t *testing.T) {
	for _, taken := range []bool{true, false} {
		inBubble(t, func(g *rig) {
			g.enqueue(outbox.Event{ID: "first", OrderingKey: "a"}, outbox.Event{ID: "second", OrderingKey: "a"})
			var seen record
			publish := func(_ context.Context, ev outbox.Event) error {
				seen.add(ev)
				return nil
			}
			q := &counted{Queue: &lateClaim{Queue: g.queue}}
			stopped := g.relay(q, publish)
			defer stopped()
			synctest.Wait()
			if taken {
				stop := g.relay(g.queue, publish)
				time.Sleep(outbox.DefaultLeaseTTL + 2*outbox.DefaultPollInterval)
				stop()
				require.Equal(g, []string{"first", "second"}, seen.all())
			}
			time.Sleep(2 * time.Minute)
			stopped()
			require.Equal(g, []string{"first", "second"}, seen.all())
			require.Equal(g, 2, q.results[outbox.Released])
			g.stats(0, 0)
		})
	}
}

// A dead letter that is not written is delivered again. So the events behind it wait.
func TestNoEventOvertakesADeadLetterThatIsNotWritten(t *testing.T) {
	inBubble(t, func(g *rig) {
		g.enqueue(outbox.Event{ID: "first", OrderingKey: "a"}, outbox.Event{ID: "second", OrderingKey: "a"})
		var up atomic.Bool
		q := spoiled{Queue: g.queue, settle: func() error {
			if up.Load() {
				return nil
			}
			return store.ErrUnavailable
		}}
		var seen record
		stop := g.relay(q, func(_ context.Context, ev outbox.Event) error {
			if seen.add(ev); ev.ID == "first" {
				return outbox.Reject(errors.New("malformed"))
			}
			return nil
		}, outbox.PollInterval(time.Hour))
		defer stop()
		time.Sleep(outbox.DefaultLeaseTTL / 2)
		require.Equal(g, []string{"first"}, seen.all())
		up.Store(true)
		time.Sleep(2 * time.Hour)
		require.Equal(g, []string{"first", "first", "second"}, seen.all())
		g.stats(0, 1)
	})
}
