package inbox_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

func TestALeaseThatIsNotRenewedForTwoThirdsOfItEndsTheHandler(t *testing.T) {
	for _, c := range []struct {
		name string
		st   func(*memstore.Store) inbox.Store
		want time.Duration
	}{
		{"the store fails", func(st *memstore.Store) inbox.Store { return mortal(st, 1) }, 20 * second},
		{"it fails after a renewal", func(st *memstore.Store) inbox.Store { return mortal(st, 2) }, 30 * second},
		{"the store hangs", func(st *memstore.Store) inbox.Store { return &hanging{Store: st} }, 20 * second},
		{"it hangs after a renewal", func(st *memstore.Store) inbox.Store {
			return &hanging{Store: st, after: 1}
		}, 30 * second},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, mem *memstore.Store) {
				in := newInbox(t, c.st(mem), inbox.LeaseTTL(30*second))
				start := time.Now()
				_, err := in.Receive(t.Context(), event, func(ctx context.Context, _ inbox.Event) error {
					<-ctx.Done()
					require.Equal(t, c.want, time.Since(start))
					require.ErrorIs(t, context.Cause(ctx), store.ErrLost)
					require.NotEqual(t, store.ErrLost, context.Cause(ctx), "it names the store's error")
					rec, err := mem.Find(t.Context(), eventRecord)
					require.NoError(t, err)
					require.Equal(t, 10*second, rec.LeaseLeft(), "no other process owns the event yet")
					return ctx.Err()
				})
				refused(t, err, inbox.HandlerFailed)
			})
		})
	}
}

func TestALeaseMayHaveAnyLength(t *testing.T) {
	for _, d := range []time.Duration{time.Millisecond, store.Forever / 2, store.Forever/2 + 1, store.Forever - 1} {
		t.Run(d.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, st *memstore.Store) {
				in := newInbox(t, st, inbox.Retention(store.Forever), inbox.LeaseTTL(d))
				r, err := in.Receive(t.Context(), event, returns(nil))
				require.NoError(t, err)
				require.Equal(t, inbox.Processed, r.Status)
			})
		})
	}
}

func TestALeaseThatIsRenewedLateIsKept(t *testing.T) {
	bubble(t, func(t *testing.T, mem *memstore.Store) {
		st := &hanging{Store: mem, after: 1}
		in := newInbox(t, st, inbox.LeaseTTL(30*second))
		start := time.Now()
		r, err := in.Receive(t.Context(), event, func(ctx context.Context, _ inbox.Event) error {
			time.Sleep(25 * second) // the renewal after 20 seconds hangs
			st.mend()
			time.Sleep(30 * second)
			return ctx.Err()
		})
		require.NoError(t, err)
		require.Equal(t, inbox.Processed, r.Status)
		require.Equal(t, 55*second, time.Since(start))
	})
}

func TestARenewalThatFailsIsMadeAgainAfterATenthOfTheLease(t *testing.T) {
	bubble(t, func(t *testing.T, mem *memstore.Store) {
		in := newInbox(t, &stumbling{Store: mem}, inbox.LeaseTTL(30*second))
		_, err := in.Receive(t.Context(), event, func(context.Context, inbox.Event) error {
			time.Sleep(15 * second) // the renewal after 10 seconds has failed
			rec, err := mem.Find(t.Context(), eventRecord)
			require.NoError(t, err)
			require.Equal(t, 28*second, rec.LeaseLeft())
			return nil
		})
		require.NoError(t, err)
	})
}

// A stumbling store fails the first Extend.
type stumbling struct {
	*memstore.Store
	failed bool
}

func (s *stumbling) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	if !s.failed {
		s.failed = true
		return store.ErrUnavailable
	}
	return s.Store.Extend(ctx, l, d, meta)
}

// A hanging store completes so many renewals, and then keeps each one waiting until it is mended or the context ends.
type hanging struct {
	*memstore.Store
	after  int
	mended chan struct{}
	once   sync.Once
}

func (h *hanging) wait() chan struct{} {
	h.once.Do(func() { h.mended = make(chan struct{}) })
	return h.mended
}

func (h *hanging) mend() { close(h.wait()) }

func (h *hanging) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	if h.after--; h.after < 0 && meta == nil {
		select {
		case <-h.wait():
		case <-ctx.Done():
			return errors.Join(store.ErrUnavailable, ctx.Err())
		}
	}
	return h.Store.Extend(ctx, l, d, meta)
}

// The response to this owner's Complete was lost, and the record shows another owner's outcome.
func TestAnotherOwnersOutcomeDoesNotConfirmOnesOwn(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, &lossy{Store: st, err: store.ErrUnknown, until: time.Now().Add(1)})
		_, err := in.Receive(t.Context(), event, func(ctx context.Context, _ inbox.Event) error {
			rec, err := st.Find(ctx, eventRecord)
			require.NoError(t, err)
			require.NoError(t, st.Extend(ctx, rec.Lease(), 0, nil))
			_, err = newInbox(t, st).Receive(ctx, event, (&scripted{}).handle)
			return err
		})
		refused(t, err, taxonomy.InFlight)
		require.ErrorIs(t, err, store.ErrLost)
	})
}

func TestTheRetentionBeginsWhenAnEventIsSettled(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, st)
		_, err := in.Receive(t.Context(), event, func(context.Context, inbox.Event) error {
			time.Sleep(time.Hour)
			return nil
		})
		require.NoError(t, err)
		time.Sleep(inbox.DefaultRetention - second)
		r, err := in.Receive(t.Context(), event, unused)
		require.NoError(t, err)
		require.Equal(t, inbox.Replayed, r.Status)
	})
}

func TestACommitThatTheStoreCouldNotTakeIsNotTheHandlersFailure(t *testing.T) {
	transactional(t, func(t *testing.T, e *engine, in *inbox.Transactional[rows]) {
		e.refuse = store.ErrUnavailable
		_, err := in.Receive(t.Context(), event, credit(nil))
		refused(t, err, taxonomy.Unavailable)
		e.refuse = nil
		_, err = in.Receive(t.Context(), event, credit(nil))
		require.NoError(t, err, "and the event does not rest")
		require.Equal(t, credited, e.rows)
	})
}
