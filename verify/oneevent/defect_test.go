package oneevent

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/verify/internal/random"
)

// A flawedStore breaks one rule of its contract. A nil function breaks none.
type flawedStore struct {
	inbox.Store
	grant    func(*store.Grant)
	extend   func(context.Context, store.Store, store.Lease, time.Duration, []byte) error
	complete func(context.Context, store.Store, store.Lease, store.Outcome) error
}

func (f flawedStore) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	g, err := f.Store.Reserve(ctx, c)
	if err == nil && f.grant != nil {
		f.grant(&g)
	}
	return g, err
}

func (f flawedStore) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	if f.extend == nil {
		return f.Store.Extend(ctx, l, d, meta)
	}
	return f.extend(ctx, f.Store, l, d, meta)
}

func (f flawedStore) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	if f.complete == nil {
		return f.Store.Complete(ctx, l, o)
	}
	return f.complete(ctx, f.Store, l, o)
}

// The inbox can keep the rules only if the store and the queue keep their own. So each of these is found.
func TestEachPlantedDefectIsFound(t *testing.T) {
	for name, f := range map[string]struct {
		store flawedStore
		queue random.FlawedQueue
	}{
		"a take-over looks like a new event": {store: flawedStore{grant: func(g *store.Grant) {
			if g.Verdict == store.TakenOver {
				g.Verdict = store.Acquired
			}
		}}},
		"a lease in flight is taken over": {store: flawedStore{grant: func(g *store.Grant) {
			if g.Verdict == store.InFlight {
				g.Verdict, g.Lease = store.TakenOver, g.Record.Lease()
			}
		}}},
		"another payload is taken for the same": {store: flawedStore{grant: func(g *store.Grant) {
			if g.Verdict == store.Mismatch {
				g.Verdict, g.Lease = store.TakenOver, g.Record.Lease()
			}
		}}},
		"a renewal is acknowledged and lost": {store: flawedStore{extend: func(
			ctx context.Context, st store.Store, l store.Lease, d time.Duration, meta []byte,
		) error {
			if meta == nil && d > 0 {
				return nil
			}
			return st.Extend(ctx, l, d, meta)
		}}},
		"a note is acknowledged and lost": {store: flawedStore{extend: func(
			ctx context.Context, st store.Store, l store.Lease, d time.Duration, _ []byte,
		) error {
			return st.Extend(ctx, l, d, nil)
		}}},
		"an outcome is acknowledged and lost": {store: flawedStore{complete: func(
			context.Context, store.Store, store.Lease, store.Outcome,
		) error {
			return nil
		}}},
		"a dropped event is released": {store: flawedStore{complete: func(
			ctx context.Context, st store.Store, l store.Lease, o store.Outcome,
		) error {
			if o.Failed {
				return st.Release(ctx, l)
			}
			return st.Complete(ctx, l, o)
		}}},
		"an accepted event is lost": {queue: random.FlawedQueue{Enqueued: func(*outbox.Event) bool { return false }}},
		"a redriven event is lost":  {queue: random.FlawedQueue{Drops: true}},
		"an order is not kept": {queue: random.FlawedQueue{Enqueued: func(ev *outbox.Event) bool {
			ev.OrderingKey = ""
			return true
		}}},
		"an event that failed is taken for sent": {queue: random.FlawedQueue{Settled: func(s *outbox.Settlement) {
			if s.Outcome.Result == outbox.Waiting {
				s.Outcome = outbox.Outcome{Result: outbox.Sent}
			}
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			const tries = 1000
			l := lives(t, 0, tries, func(st inbox.Store, q inbox.Queue) (inbox.Store, inbox.Queue) {
				f.store.Store, f.queue.Queue = st, q
				return f.store, f.queue
			})
			require.NotNil(t, l, "not found in %d lives", tries)
			t.Logf("found by seed %d: %s", l.Seed, l.Violation())
		})
	}
}

// The twin: a lease that ends later costs time and no effect.
func TestALongerLeaseBreaksNoRule(t *testing.T) {
	l := lives(t, 0, 100, func(st inbox.Store, q inbox.Queue) (inbox.Store, inbox.Queue) {
		longer := func(ctx context.Context, st store.Store, l store.Lease, d time.Duration, meta []byte) error {
			if d > 0 {
				d += time.Second
			}
			return st.Extend(ctx, l, d, meta)
		}
		return flawedStore{Store: st, extend: longer}, q
	})
	if l != nil {
		require.Fail(t, l.Violation(), "%v", l)
	}
}
