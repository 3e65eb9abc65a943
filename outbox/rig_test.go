package outbox_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/memoutbox"
	"github.com/redo-go/redo/store"
)

// A rig is a queue in virtual time, whose backend passes the suite of outboxtest.
type rig struct {
	*testing.T
	queue *memoutbox.Queue
}

// patience bounds each test. It is spent only when a rule is broken.
const patience = 2 * time.Minute

func inBubble(t *testing.T, f func(g *rig)) {
	t.Helper()
	// A relay that calls its queue without a pause lets no time pass in the bubble. The bound is in real time.
	bound := time.AfterFunc(patience, func() { panic(t.Name() + " does not end") })
	defer bound.Stop()
	synctest.Test(t, func(t *testing.T) {
		f(&rig{t, memoutbox.New()})
	})
}

func (g *rig) enqueue(events ...outbox.Event) {
	g.Helper()
	require.NoError(g, g.queue.Append(context.Background(), events...))
}

// relay runs a relay. It returns a function that ends the relay and waits for its end.
func (g *rig) relay(q outbox.Queue, p outbox.PublisherFunc, opts ...outbox.Option) (stop func()) {
	g.Helper()
	r, err := outbox.NewRelay(q, p, opts...)
	require.NoError(g, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		require.NoError(g, <-ended)
	})
}

func (g *rig) stats(waiting, dead int) {
	g.Helper()
	st, err := g.queue.Stats(context.Background())
	require.NoError(g, err)
	require.Equal(g, [2]int{waiting, dead}, [2]int{st.Waiting, st.Dead}, "waiting and dead")
}

func (g *rig) letters() (found []outbox.Entry) {
	g.Helper()
	for l, err := range g.queue.Events(context.Background(), outbox.Selection{State: outbox.StateDead}) {
		require.NoError(g, err)
		found = append(found, l)
	}
	return found
}

// A record keeps the events that a publisher was given, in order.
type record struct {
	mu    sync.Mutex
	ids   []string
	times map[string]int
}

// add returns how often the event was given.
func (l *record) add(ev outbox.Event) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.times == nil {
		l.times = map[string]int{}
	}
	l.ids = append(l.ids, ev.ID)
	l.times[ev.ID]++
	return l.times[ev.ID]
}

func (l *record) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string{}, l.ids...)
}

// constant is a schedule without chance.
func constant(attempts int, wait time.Duration) outbox.Option {
	return outbox.Options(outbox.Retry(slices.Repeat([]time.Duration{wait}, attempts-1)...),
		outbox.Random(func() float64 { return 0.5 }))
}

// A spoiled queue fails before a call reaches the one below.
type spoiled struct {
	outbox.Queue
	claim, extend, settle func() error
}

func (s spoiled) Claim(ctx context.Context, c outbox.Claim) ([]outbox.Delivery, error) {
	if s.claim != nil {
		if err := s.claim(); err != nil {
			return nil, err
		}
	}
	return s.Queue.Claim(ctx, c)
}

func (s spoiled) Extend(ctx context.Context, d time.Duration, leases ...outbox.Lease) ([]outbox.Lease, error) {
	if s.extend != nil {
		if err := s.extend(); errors.Is(err, store.ErrLost) {
			return leases, nil
		} else if err != nil {
			return nil, err
		}
	}
	return s.Queue.Extend(ctx, d, leases...)
}

func (s spoiled) Settle(ctx context.Context, ended ...outbox.Settlement) ([]outbox.Lease, error) {
	if s.settle != nil {
		if err := s.settle(); errors.Is(err, store.ErrLost) {
			var lost []outbox.Lease
			for _, e := range ended {
				lost = append(lost, e.Lease)
			}
			return lost, nil
		} else if err != nil {
			return nil, err
		}
	}
	return s.Queue.Settle(ctx, ended...)
}
