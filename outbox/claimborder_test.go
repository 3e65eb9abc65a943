package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
)

// claimLog keeps each claim, and the number of deliveries that had begun a millisecond later. It has no Watch.
type claimLog struct {
	outbox.Queue
	seen     record
	claims   []outbox.Claim
	begun    []int
	second   atomic.Int32 // counts claims of one event
	settling time.Duration
}

func (q *claimLog) Claim(ctx context.Context, c outbox.Claim) ([]outbox.Delivery, error) {
	if c.Max == 1 {
		q.second.Add(1)
	}
	time.Sleep(time.Millisecond)
	c.Room = maps.Clone(c.Room)
	q.claims, q.begun = append(q.claims, c), append(q.begun, len(q.seen.all()))
	return q.Queue.Claim(ctx, c)
}

func (q *claimLog) Settle(ctx context.Context, ended ...outbox.Settlement) ([]outbox.Lease, error) {
	time.Sleep(q.settling)
	return q.Queue.Settle(ctx, ended...)
}

// With one worker the buffer has 64 places. After a full claim the relay asks for another event at once if the first
// one has begun.
func TestARelayClaimsAsSoonAsExactlyHalfOfItsBufferIsFree(t *testing.T) {
	const places = 64
	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	for rule, c := range map[string]struct {
		settling time.Duration
		quick    bool // the attempts before half of the places are free
	}{
		"when an attempt begins": {0, false}, // it leaves its worker to the next one
		"when a settlement ends": {50 * time.Millisecond, true},
	} {
		inBubble(t, func(g *rig) {
			for i := range 2 * places {
				g.enqueue(outbox.Event{ID: "k", Destination: fmt.Sprint("d", i)})
			}
			q := &claimLog{Queue: g.queue, settling: c.settling}
			stop := g.relay(q, func(ctx context.Context, ev outbox.Event) error {
				q.seen.add(ev)
				time.Sleep(time.Millisecond)
				if c.quick && len(q.seen.all()) < places/2+int(q.second.Load()) {
					return nil
				}
				return hang(ctx)
			}, outbox.Workers(1), outbox.PerDestination(4), outbox.AttemptTimeout(time.Hour), outbox.Drain(0),
				outbox.PollInterval(time.Hour))
			time.Sleep(10 * time.Second)
			stop()
			var most []int
			for _, c := range q.claims {
				if c.Max > 1 {
					most = append(most, c.Max)
				}
			}
			require.Equal(g, []int{places, places / 2}, most[:2], rule)
		})
	}
}

// A relay that has delivered little to a destination holds as many of its events as may be delivered at a time. One
// runs, and one waits: that is half of four places, and less than half of three are free.
func TestARelayClaimsAsSoonAsHalfOfADestinationsShareIsFree(t *testing.T) {
	for places, begun := range map[int]int{3: 3, 4: 3} {
		inBubble(t, func(g *rig) {
			g.fill("d", 7, unordered)
			q := &claimLog{Queue: g.queue}
			stop := g.relay(q, func(_ context.Context, ev outbox.Event) error {
				q.seen.add(ev)
				time.Sleep(10 * time.Millisecond)
				return nil
			}, outbox.Workers(1), outbox.PerDestination(places), outbox.PollInterval(time.Hour))
			time.Sleep(time.Minute)
			stop()
			g.stats(0, 0)
			require.Equal(g, []int{0, begun}, q.begun[:2], places)
		})
	}
}

// A claim names the destinations whose limit differs. An idle one is named while the relay counts its deliveries.
func TestAClaimNamesAnIdleDestinationForTwoSecondsAfterItsDeliveries(t *testing.T) {
	for after, room := range map[time.Duration]map[string]int{
		2*time.Second - 1: {"d": 5}, 2 * time.Second: {},
	} {
		inBubble(t, func(g *rig) {
			q := &claimLog{Queue: g.queue}
			r, err := outbox.NewRelay(q, outbox.PublisherFunc(func(_ context.Context, ev outbox.Event) error {
				q.seen.add(ev)
				return nil
			}), outbox.PollInterval(time.Hour))
			require.NoError(g, err)
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			g.fill("d", 1, unordered)
			go func() { ended <- r.Run(ctx) }()
			time.Sleep(time.Millisecond) // of the first claim
			synctest.Wait()
			require.Equal(g, []string{"d-00000"}, q.seen.all())
			time.Sleep(after)
			require.NoError(g, r.Enable(ctx, "another")) // it makes the relay claim
			time.Sleep(time.Millisecond)
			synctest.Wait()
			require.Len(g, q.claims, 2)
			require.Equal(g, room, q.claims[1].Room, after)
			cancel()
			require.NoError(g, <-ended)
		})
	}
}

// The longest schedule is a fifth longer than its waits. An attempt that sent nothing does not end the event.
func TestADestinationIsDisabledAfterMoreThanAScheduleWithoutADelivery(t *testing.T) {
	const longest = 72 * time.Minute
	for down, disabled := range map[time.Duration][]string{longest: nil, longest + 1: {"d"}} {
		inBubble(t, func(g *rig) {
			g.enqueue(outbox.Event{ID: "k", Destination: "d"})
			start, tries := time.Now(), 0
			stop := g.relay(g.queue, func(context.Context, outbox.Event) error {
				if tries++; tries == 2 {
					time.Sleep(time.Until(start.Add(down)))
				}
				return outbox.NotSent(errors.New("connection refused"))
			}, constant(2, time.Hour), outbox.AttemptTimeout(2*time.Hour))
			defer stop()
			time.Sleep(down)
			synctest.Wait()
			require.Equal(g, 2, tries)
			g.disabled(disabled...)
		})
	}
}
