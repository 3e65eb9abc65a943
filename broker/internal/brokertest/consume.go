package brokertest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/store/memstore"
)

const source = "shop"

var consuming = []testCase{
	{rule: "an event that is published twice is handled once", run: func(t *testing.T, b *Broker) {
		c := b.consumer(t, nil)
		for range 2 {
			require.NoError(t, b.Publisher.Publish(t.Context(), b.event("refund:re_1")))
		}
		require.NoError(t, b.Publisher.Publish(t.Context(), b.event("refund:re_2")))
		var want []inbox.Event
		for _, id := range []string{"refund:re_1", "refund:re_2"} {
			want = append(want, inbox.Event{Source: source, ID: id, Payload: []byte(`{"refund":"` + id + `"}`), Attempt: 1})
		}
		require.ElementsMatch(t, want, []inbox.Event{c.next(t), c.next(t)}, "in any order: not every broker keeps it")
		c.drained(t)
	}},
	{rule: "any bytes arrive", run: func(t *testing.T, b *Broker) {
		c := b.consumer(t, nil)
		ev := b.event("1")
		ev.Payload = []byte{0, 0xff, '<', '\n'}
		require.NoError(t, b.Publisher.Publish(t.Context(), ev))
		require.Equal(t, ev.Payload, c.next(t).Payload)
		c.drained(t)
	}},
	{rule: "an event that fails is delivered again", run: func(t *testing.T, b *Broker) {
		c := b.consumer(t, func(ev inbox.Event) error {
			if ev.Attempt < 3 {
				return errors.New("the ledger is closed")
			}
			return nil
		})
		require.NoError(t, b.Publisher.Publish(t.Context(), b.event("1")))
		for attempt := range 3 {
			require.Equal(t, attempt+1, c.next(t).Attempt)
		}
		c.drained(t)
	}},
	{rule: "an event that keeps failing stops no other", run: func(t *testing.T, b *Broker) {
		c := b.consumer(t, func(ev inbox.Event) error {
			if ev.ID == "bad" {
				return errors.New("the ledger is closed")
			}
			return nil
		}, inbox.Backoff(func(int) time.Duration { return time.Hour }))
		bad := b.event("bad")
		bad.OrderingKey = "another"
		require.NoError(t, b.Publisher.Publish(t.Context(), bad))
		require.Equal(t, "bad", c.next(t).ID)
		require.NoError(t, b.Publisher.Publish(t.Context(), b.event("good")))
		require.Equal(t, "good", c.next(t).ID)
		require.Eventually(t, func() bool { return b.Pending(t) == 1 }, limit, pause, "the bad one stays")
	}},
	{rule: "a repeated event keeps its place, if the broker keeps the order", run: func(t *testing.T, b *Broker) {
		for _, id := range []string{"1", "2", "3"} {
			require.NoError(t, b.Publisher.Publish(t.Context(), b.event(id)))
		}
		c := b.consumer(t, func(ev inbox.Event) error {
			if ev.ID == "2" && ev.Attempt < 3 {
				return errors.New("the ledger is closed")
			}
			return nil
		})
		var handled []string
		for range 5 {
			handled = append(handled, c.next(t).ID)
		}
		if want := []string{"1", "2", "2", "2", "3"}; b.Ordered {
			require.Equal(t, want, handled)
		} else {
			require.ElementsMatch(t, want, handled)
		}
		c.drained(t)
	}},
	{rule: "a message without an id keeps one over its deliveries", run: func(t *testing.T, b *Broker) {
		c := b.consumer(t, func(ev inbox.Event) error {
			if ev.Attempt < 2 {
				return errors.New("the ledger is closed")
			}
			return nil
		})
		for range 2 {
			b.Foreign(t, "same")
		}
		ids := map[string]int{}
		for range 4 {
			ev := c.next(t)
			require.Equal(t, "same", string(ev.Payload))
			ids[ev.ID]++
		}
		require.Len(t, ids, 2, "equal messages are two events: %v", ids)
		for id, attempts := range ids {
			require.Equal(t, 2, attempts, id)
		}
		c.drained(t)
	}},
	{rule: "a handler that has started ends before the consumer does", run: func(t *testing.T, b *Broker) {
		started, release := make(chan struct{}), make(chan struct{})
		c := b.consumer(t, func(inbox.Event) error {
			close(started)
			<-release
			return nil
		})
		require.NoError(t, b.Publisher.Publish(t.Context(), b.event("1")))
		<-started
		c.cancel()
		close(release)
		require.NoError(t, c.wait())
		require.NoError(t, (<-c.handled).ctx, "the context of a handler that has started does not end")
		require.Eventually(t, func() bool { return b.Pending(t) == 0 }, limit, pause)
	}},
	{
		rule: "a process killed after the commit and before the acknowledgement applies the event once",
		run:  killed("committed", "replayed"),
	},
	{
		rule: "a process killed before the commit leaves the event to the next",
		run:  killed("handling", "processed"),
	},
}

// Bounds of waiting for a broker.
const (
	limit = 90 * time.Second // a copy that comes while the first is handled waits for the lease of 30 s
	pause = 20 * time.Millisecond
)

// A consumer consumes from a broker into an inbox.
type consumer struct {
	b       *Broker
	handled chan handled
	cancel  context.CancelFunc
	wait    func() error
}

// handled is one attempt of the handler.
type handled struct {
	ev  inbox.Event
	ctx error // of the handler's context, at the end
}

// consumer starts a consumer whose handler is f. Nil handles everything.
func (b *Broker) consumer(t *testing.T, f func(inbox.Event) error, opts ...inbox.Option) *consumer {
	t.Helper()
	opts = append([]inbox.Option{inbox.Backoff(func(int) time.Duration { return 10 * time.Millisecond })}, opts...)
	events, err := inbox.New(memstore.New(), opts...)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	c := &consumer{b: b, handled: make(chan handled, 100), cancel: cancel}
	handle := func(ctx context.Context, ev inbox.Event) error {
		var err error
		if f != nil {
			err = f(ev)
		}
		c.handled <- handled{ev, ctx.Err()}
		return err
	}
	ended := make(chan error, 1)
	go func() {
		ended <- b.Consume(ctx, b.Address, source, func(ctx context.Context, ev inbox.Event) (inbox.Receipt, error) {
			return events.Receive(ctx, ev, handle)
		})
	}()
	c.wait = sync.OnceValue(func() error { return <-ended })
	t.Cleanup(func() {
		cancel()
		require.NoError(t, c.wait())
	})
	return c
}

// next returns the next event that was handled, without its time.
func (c *consumer) next(t *testing.T) inbox.Event {
	t.Helper()
	select {
	case h := <-c.handled:
		h.ev.ReceivedAt = time.Time{}
		return h.ev
	case <-time.After(limit):
		require.FailNow(t, "no event was handled")
		return inbox.Event{}
	}
}

// drained waits until all messages are acknowledged, and checks that no other was handled.
func (c *consumer) drained(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return c.b.Pending(t) == 0 }, limit, pause, "everything is acknowledged")
	c.cancel()
	require.NoError(t, c.wait())
	require.Empty(t, c.handled, "nothing else was handled")
}
