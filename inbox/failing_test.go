package inbox_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

// A failing engine accepts left writes once it is armed, and then none.
type failing struct {
	*engine
	armed  bool
	left   int
	writes int // since it was armed
}

// mortal returns an engine that accepts left writes from now on.
func mortal(st *memstore.Store, left int) *failing {
	return &failing{engine: newEngine(st), armed: true, left: left}
}

func (f *failing) write() error {
	if !f.armed {
		return nil
	}
	if f.writes++; f.writes > f.left {
		return store.ErrUnavailable
	}
	return nil
}

func (f *failing) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	if err := f.write(); err != nil {
		return store.Grant{}, err
	}
	return f.engine.Reserve(ctx, c)
}

func (f *failing) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	if err := f.write(); err != nil {
		return err
	}
	return f.engine.Extend(ctx, l, d, meta)
}

func (f *failing) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	if err := f.write(); err != nil {
		return err
	}
	return f.engine.Complete(ctx, l, o)
}

func (f *failing) Release(ctx context.Context, l store.Lease) error {
	if err := f.write(); err != nil {
		return err
	}
	return f.engine.Release(ctx, l)
}

func (f *failing) Forget(ctx context.Context, l store.Lease) error {
	if err := f.write(); err != nil {
		return err
	}
	return f.engine.Forget(ctx, l)
}

const always = 1 << 30

// A rig is an inbox that can lose its store, and another one over the same store that can't.
type rig struct {
	*failing
	doomed, live *inbox.Transactional[rows]
	log          bytes.Buffer // of live
}

func rigged(t *testing.T, f func(t *testing.T, r *rig), opts ...inbox.Option) {
	t.Helper()
	bubble(t, func(t *testing.T, st *memstore.Store) {
		e := &failing{engine: newEngine(st), left: always}
		doomed, err := inbox.NewTransactional(e, opts...)
		require.NoError(t, err)
		r := &rig{failing: e, doomed: doomed}
		log := inbox.Logger(slog.New(slog.NewTextHandler(&r.log, nil)))
		r.live, err = inbox.NewTransactional(e.engine, append(opts, log)...)
		require.NoError(t, err)
		f(t, r)
	})
}

// ends returns a handler that ends its transaction and then runs next. The engine is armed from then on.
func (r *rig) ends(next inbox.Handler) inbox.TxHandler[rows] {
	return func(ctx context.Context, tx rows, ev inbox.Event) error {
		_ = credit(nil)(ctx, tx, ev)
		r.end(tx)
		r.armed, r.writes = true, 0
		return next(ctx, ev)
	}
}

func returns(err error) inbox.Handler {
	return func(context.Context, inbox.Event) error { return err }
}

// makeUnknown handles the event once, with an unknown outcome.
func (r *rig) makeUnknown(t *testing.T) {
	t.Helper()
	got, err := r.live.Receive(t.Context(), event, r.ends(returns(errHandler)))
	require.NoError(t, err)
	require.True(t, got.Unknown)
	r.armed = false
}

// requireUnknown requires that the event has had its effect once, is not handled again, and is listed.
func (r *rig) requireUnknown(t *testing.T) inbox.FailedEvent {
	t.Helper()
	got, err := r.live.Receive(t.Context(), event, credit(nil))
	require.NoError(t, err)
	require.Equal(t, inbox.Replayed, got.Status)
	require.True(t, got.Unknown)
	require.True(t, got.Dead())
	_, err = r.live.Redrive(t.Context(), event.Source, event.ID, credit(nil))
	refused(t, err, taxonomy.OutcomeUnknown)
	require.Equal(t, credited, r.rows)
	list := letters(t, r.live, "")
	require.Len(t, list, 1)
	require.True(t, list[0].Unknown)
	require.Equal(t, event.Payload, list[0].Payload)
	require.Equal(t, got.Attempts, list[0].Attempts)
	require.Equal(t, got.ReceivedAt, list[0].ReceivedAt)
	require.False(t, got.ReceivedAt.IsZero())
	require.False(t, list[0].FailedAt.Before(got.ReceivedAt))
	return list[0]
}
