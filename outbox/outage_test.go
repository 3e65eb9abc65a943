package outbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/memoutbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
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

// A faulty queue refuses a settlement of the event "bad", fails as many calls of Disable and Watch as are set, and takes
// its time for each settlement.
type faulty struct {
	*memoutbox.Queue
	mu               sync.Mutex
	bad              map[outbox.Lease]bool
	disable, watches int
}

func (f *faulty) Claim(ctx context.Context, c outbox.Claim) ([]outbox.Delivery, error) {
	ds, err := f.Queue.Claim(ctx, c)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range ds {
		if d.Event.ID == "bad" {
			f.bad = map[outbox.Lease]bool{d.Lease: true}
		}
	}
	return ds, err
}

func (f *faulty) Settle(ctx context.Context, ended ...outbox.Settlement) ([]outbox.Lease, error) {
	time.Sleep(time.Second)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range ended {
		if f.bad[e.Lease] {
			return nil, store.ErrInvalid
		}
	}
	return f.Queue.Settle(ctx, ended...)
}

func (f *faulty) Disable(ctx context.Context, destination string, why outbox.Failure) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.disable--; f.disable >= 0 {
		return store.ErrUnavailable
	}
	return f.Queue.Disable(ctx, destination, why)
}

func (f *faulty) Watch(ctx context.Context, wake func()) error {
	f.mu.Lock()
	f.watches--
	fails := f.watches >= 0
	f.mu.Unlock()
	if fails {
		return store.ErrUnavailable
	}
	return f.Queue.Watch(ctx, wake)
}

func TestASettlementThatTheQueueRefusesFailsNoOther(t *testing.T) {
	inBubble(t, func(g *rig) {
		g.enqueue(outbox.Event{ID: "first"}, outbox.Event{ID: "bad"}, outbox.Event{ID: "good"})
		var seen recorder
		stop := g.relay(&faulty{Queue: g.queue}, func(_ context.Context, ev outbox.Event) error {
			if ev.ID != "first" {
				time.Sleep(time.Millisecond) // it ends while the first one is settled
			}
			return nil
		}, outbox.Observe(&seen), outbox.LeaseTTL(time.Hour))
		defer stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		results := map[string]outbox.Result{}
		for _, a := range seen.attempts {
			results[a.ID] = a.Result
		}
		require.Equal(g, map[string]outbox.Result{"first": outbox.Sent, "bad": 0, "good": outbox.Sent}, results)
		g.stats(1, 0)
	})
}

func TestADestinationIsDisabledOnceTheQueueIsBack(t *testing.T) {
	for _, c := range []struct {
		failures int
		want     []string // disabled after the first event
	}{{2, []string{"hook"}}, {100, nil}} {
		inBubble(t, func(g *rig) {
			q := &faulty{Queue: g.queue, disable: c.failures}
			g.enqueue(outbox.Event{ID: "a", Destination: "hook"})
			var notified []string
			stop := g.relay(q, func(context.Context, outbox.Event) error {
				return &redo.Error{Code: taxonomy.Gone, StatusCode: 410}
			}, outbox.OnDisabled(func(_ context.Context, d outbox.DisabledDestination) {
				notified = append(notified, d.Destination)
			}))
			defer stop()
			time.Sleep(30 * time.Second)
			synctest.Wait()
			g.disabled(c.want...)
			require.Equal(g, c.want, notified)
			q.mu.Lock()
			q.disable = 0
			q.mu.Unlock()
			time.Sleep(time.Hour)
			synctest.Wait()
			g.disabled("hook")
			require.Equal(g, []string{"hook"}, notified)
		})
	}
}

// mute is a queue whose Disable takes effect, and whose response is always lost.
type mute struct{ outbox.Queue }

func (q mute) Disable(ctx context.Context, destination string, why outbox.Failure) error {
	return errors.Join(store.ErrUnknown, q.Queue.Disable(ctx, destination, why))
}

// No later failure would notify the operator, because no event of a disabled destination is claimed.
func TestAnOperatorIsNotifiedIfADestinationMayBeDisabled(t *testing.T) {
	inBubble(t, func(g *rig) {
		g.enqueue(outbox.Event{ID: "a", Destination: "hook"})
		notified := 0
		stop := g.relay(mute{g.queue}, func(context.Context, outbox.Event) error {
			return outbox.Gone(errors.New("closed"))
		}, outbox.OnDisabled(func(context.Context, outbox.DisabledDestination) { notified++ }))
		defer stop()
		time.Sleep(time.Hour)
		g.disabled("hook")
		require.Equal(g, 1, notified)
	})
}

// Events that are not settled yet take the places of others. With one worker there are 64.
func TestTheLastPlaceIsFilledWhileTheQueueSettles(t *testing.T) {
	inBubble(t, func(g *rig) {
		g.fill("d", 63, unordered)
		var seen record
		q := spoiled{Queue: g.queue, settle: func() error { time.Sleep(10 * time.Second); return nil }}
		stop := g.relay(q, func(_ context.Context, ev outbox.Event) error {
			seen.add(ev)
			return nil
		}, outbox.Workers(1), outbox.QueueTimeout(time.Minute), outbox.PollInterval(time.Second))
		defer stop()
		time.Sleep(5 * time.Second)
		require.Len(g, seen.all(), 63)
		g.enqueue(outbox.Event{ID: "64"}, outbox.Event{ID: "65"})
		time.Sleep(2 * time.Second)
		require.Len(g, seen.all(), 64)
		time.Sleep(time.Minute)
		require.Len(g, seen.all(), 65)
	})
}

func TestAWatchThatEndsIsBegunAgain(t *testing.T) {
	inBubble(t, func(g *rig) {
		var seen record
		var calls recorder
		stop := g.relay(&faulty{Queue: g.queue, watches: 3}, func(_ context.Context, ev outbox.Event) error {
			seen.add(ev)
			return nil
		}, outbox.PollInterval(time.Minute), outbox.Observe(&calls))
		defer stop()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(g, 3, calls.methods["Watch"])
		g.enqueue(outbox.Event{ID: "k"})
		synctest.Wait()
		require.Equal(g, []string{"k"}, seen.all(), "at once")
	})
}

// The pause after a failure doubles up to half a minute, a quarter more or less. No wake-up shortens it. It begins anew
// after a watch that has lasted for longer.
func TestAQueueThatFailsIsCalledMoreAndMoreRarely(t *testing.T) {
	inBubble(t, func(g *rig) {
		q := &failing{Queue: g.queue, long: 8}
		stop := g.relay(q, func(context.Context, outbox.Event) error { return nil })
		time.Sleep(5 * time.Minute)
		stop()
		for method, pauses := range map[string][]time.Duration{"Claim": q.claims.pauses, "Watch": q.watches.pauses} {
			require.Greater(g, len(pauses), 10, method)
			want := outbox.DefaultPollInterval
			for i, pause := range pauses {
				if method == "Watch" && i == q.long {
					want = outbox.DefaultPollInterval
				}
				want = min(2*want, 30*time.Second)
				require.InDelta(g, want, pause, float64(want)/4, "%s %d", method, i)
			}
		}
	})
}

// A failing queue fails each Claim and each Watch. One Watch lasts long before.
type failing struct {
	*memoutbox.Queue
	long            int // the number of that Watch, from zero
	claims, watches intervals
}

func (f *failing) Claim(context.Context, outbox.Claim) ([]outbox.Delivery, error) {
	f.claims.begin()
	f.claims.end()
	return nil, store.ErrUnavailable
}

func (f *failing) Watch(_ context.Context, wake func()) error {
	f.watches.begin()
	wake()
	if len(f.watches.pauses) == f.long {
		time.Sleep(time.Minute)
	}
	f.watches.end()
	return store.ErrUnavailable
}

// intervals holds the times between the end of a call and the begin of the next one.
type intervals struct {
	pauses []time.Duration
	ended  time.Time
}

func (i *intervals) begin() {
	if !i.ended.IsZero() {
		i.pauses = append(i.pauses, time.Since(i.ended))
	}
}

func (i *intervals) end() { i.ended = time.Now() }

// The relay ends while its claim is under way.
func TestAClaimThatComesAfterTheEndIsGivenBack(t *testing.T) {
	inBubble(t, func(g *rig) {
		g.enqueue(outbox.Event{ID: "k"})
		ctx, end := context.WithCancel(context.Background())
		q := spoiled{Queue: g.queue, claim: func() error { end(); return nil }}
		var seen record
		r, err := outbox.NewRelay(q, outbox.PublisherFunc(func(_ context.Context, ev outbox.Event) error {
			seen.add(ev)
			return nil
		}))
		require.NoError(g, err)
		require.NoError(g, r.Run(ctx))
		require.Empty(g, seen.all())
		ds, err := g.queue.Claim(context.Background(), outbox.Claim{Max: 1, Lease: time.Second})
		require.NoError(g, err)
		require.Len(g, ds, 1)
		require.Equal(g, 1, ds[0].Attempt, "it was not counted")
	})
}

func TestEachOutageAndEachUnsettledDeliveryIsLogged(t *testing.T) {
	for _, c := range []struct {
		name   string
		queue  spoiled
		level  string
		text   string
		detail string
	}{
		{
			"a queue that is down", spoiled{claim: func() error { return store.ErrUnavailable }},
			"ERROR", "outbox queue failed", "method=Claim",
		},
		{
			"a settlement without its lease", spoiled{settle: func() error { return store.ErrLost }},
			"WARN", "delivery not settled, to come again", "to_state=unknown",
		},
		{"a delivery that the end breaks off", spoiled{}, "DEBUG", "delivery broken off", "to_state=waiting"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(g *rig) {
				var out bytes.Buffer
				logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
				g.enqueue(outbox.Event{ID: "k"})
				c.queue.Queue = g.queue
				stop := g.relay(c.queue, func(ctx context.Context, _ outbox.Event) error {
					if c.level == "DEBUG" {
						<-ctx.Done()
					}
					return ctx.Err()
				}, outbox.Logger(logger), outbox.Drain(0))
				time.Sleep(time.Second)
				stop()
				require.Contains(g, out.String(), "level="+c.level+" msg=\""+c.text+"\"")
				require.Contains(g, out.String(), c.detail)
			})
		})
	}
}

// One round deletes all that is due, and not only a batch.
func TestAPurgeGoesOnUntilNothingIsLeft(t *testing.T) {
	inBubble(t, func(g *rig) {
		const many = 2500
		for i := range many {
			g.enqueue(outbox.Event{ID: fmt.Sprint(i)})
		}
		var calls recorder
		stop := g.relay(g.queue, func(context.Context, outbox.Event) error { return nil },
			outbox.Retention(30*time.Second), outbox.Observe(&calls), outbox.PollInterval(time.Hour))
		defer stop()
		time.Sleep(80 * time.Second) // one round
		synctest.Wait()
		require.Equal(g, 3, calls.methods["Purge"])
		require.NoError(g, g.taken("0"))
		require.NoError(g, g.taken(fmt.Sprint(many-1)))
	})
}

type nilObserver struct{ outbox.Observer }

func TestARelayNeedsAQueueAndAPublisher(t *testing.T) {
	q := memoutbox.New()
	publish := outbox.PublisherFunc(func(context.Context, outbox.Event) error { return nil })
	_, err := outbox.NewRelay(nil, publish)
	require.ErrorContains(t, err, "queue is nil")
	_, err = outbox.NewRelay((*memoutbox.Queue)(nil), publish)
	require.ErrorContains(t, err, "queue is nil")
	_, err = outbox.NewRelay(q, nil)
	require.ErrorContains(t, err, "publisher is nil")
	_, err = outbox.NewRelay(q, outbox.PublisherFunc(nil))
	require.ErrorContains(t, err, "publisher is nil")
	_, err = outbox.NewRelay(q, publish, outbox.Observe((*nilObserver)(nil)))
	require.EqualError(t, err, "outbox: option Observe: the observer is a nil pointer")
	for _, b := range []outbox.Backlog{nil, (*memoutbox.Queue)(nil)} {
		_, err = outbox.RedriveAll(t.Context(), b, outbox.Selection{})
		require.ErrorContains(t, err, "RedriveAll: the backlog is nil")
	}
	r, err := outbox.NewRelay(q, publish)
	require.NoError(t, err)
	ended, end := context.WithCancel(t.Context())
	end()
	require.ErrorIs(t, r.Enable(ended, "hook"), context.Canceled)
}
