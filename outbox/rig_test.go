package outbox_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/boltoutbox"
	"github.com/redo-go/redo/store/boltstore"
)

// A rig is a queue in virtual time, whose backend passes the suite of outboxtest.
type rig struct {
	*testing.T
	st    *boltstore.Store
	queue *boltoutbox.Queue
}

func inBubble(t *testing.T, f func(g *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		st, err := boltstore.Open(filepath.Join(t.TempDir(), "outbox.redo"))
		require.NoError(t, err)
		defer st.Close()
		q, err := boltoutbox.New(t.Context(), st)
		require.NoError(t, err)
		f(&rig{t, st, q})
	})
}

func (g *rig) enqueue(events ...outbox.Event) {
	g.Helper()
	require.NoError(g, g.st.Update(context.Background(), func(tx *boltstore.Tx) error {
		for _, ev := range events {
			if _, err := g.queue.Enqueue(context.Background(), tx, ev); err != nil {
				return err
			}
		}
		return nil
	}))
}

// relay runs a relay, and returns what ends it and waits for that.
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

func (g *rig) letters() (found []outbox.DeadLetter) {
	g.Helper()
	for l, err := range g.queue.DeadLetters(context.Background()) {
		require.NoError(g, err)
		found = append(found, l)
	}
	return found
}

// A record is what a publisher was given, in order.
type record struct {
	mu  sync.Mutex
	ids []string
}

func (l *record) add(ev outbox.Event) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids = append(l.ids, ev.ID)
	n := 0
	for _, id := range l.ids {
		if id == ev.ID {
			n++
		}
	}
	return n
}

func (l *record) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string{}, l.ids...)
}

// constant is a schedule without chance.
func constant(attempts int, wait time.Duration) outbox.Option {
	return outbox.Retry(redo.RetryPolicy{MaxAttempts: attempts, BaseDelay: wait, MaxDelay: max(wait, time.Hour), Jitter: redo.ConstantDelay})
}

// A spoiled queue goes wrong before a call reaches the one below.
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

func (s spoiled) Extend(ctx context.Context, l outbox.Lease, d time.Duration) error {
	if s.extend != nil {
		if err := s.extend(); err != nil {
			return err
		}
	}
	return s.Queue.Extend(ctx, l, d)
}

func (s spoiled) Settle(ctx context.Context, l outbox.Lease, o outbox.Outcome) error {
	if s.settle != nil {
		if err := s.settle(); err != nil {
			return err
		}
	}
	return s.Queue.Settle(ctx, l, o)
}
