package inbox_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

func TestALeaseThatCannotBeRenewedEndsTheHandlerWhenItRunsOut(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		m := mortal(st, 1) // the Reserve, and nothing after it
		in := newInbox(t, m, inbox.LeaseTTL(30*second))
		start := time.Now()
		_, err := in.Receive(t.Context(), event, func(ctx context.Context, _ inbox.Event) error {
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), store.ErrLost)
			require.ErrorIs(t, context.Cause(ctx), store.ErrUnavailable)
			return ctx.Err()
		})
		refused(t, err, inbox.HandlerFailed)
		require.Equal(t, 30*second, time.Since(start))
	})
}

// The answer to this owner's Complete was lost, and what the record shows is another owner's.
func TestAnotherOwnersOutcomeDoesNotConfirmOnesOwn(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, &lossy{Store: st, err: store.ErrUnknown})
		_, err := in.Receive(t.Context(), event, func(ctx context.Context, _ inbox.Event) error {
			rec, err := st.Find(ctx, eventRecord)
			require.NoError(t, err)
			require.NoError(t, st.Extend(ctx, rec.Lease(), 0, nil))
			_, err = newInbox(t, st).Receive(ctx, event, (&scripted{}).handle)
			return err
		})
		refused(t, err, taxonomy.Unavailable)
		require.ErrorIs(t, err, store.ErrUnknown)
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
		r, err := in.Receive(t.Context(), event, nil)
		require.NoError(t, err)
		require.Equal(t, inbox.Replayed, r.Status)
	})
}

// keeping is a store in which somebody else always settles the event as failed again before it can be redriven.
type keeping struct{ *memstore.Store }

func (keeping) Forget(context.Context, store.Lease) error { return store.ErrLost }

func TestALetterStaysAsLongAsItsEventIsDead(t *testing.T) {
	bubble(t, func(t *testing.T, st *memstore.Store) {
		in := newInbox(t, keeping{st})
		bury(t, in)
		r, err := in.Redrive(t.Context(), event.Source, event.ID, nil)
		require.NoError(t, err)
		require.Equal(t, inbox.Replayed, r.Status)
		require.True(t, r.Dead())
		require.Len(t, letters(t, in, ""), 1)
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
