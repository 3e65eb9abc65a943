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

// A failing engine takes so many writes once it is armed, and then none; with down it takes none for so many, and then all.
type failing struct {
	*engine
	armed bool
	left  int
	down  int
	takes int // how many it was asked for since it was armed
}

// mortal returns one that takes so many writes from now on, and none after them.
func mortal(st *memstore.Store, left int) *failing {
	return &failing{engine: newEngine(st), armed: true, left: left}
}

func (f *failing) write() error {
	if !f.armed {
		return nil
	}
	f.takes++
	if f.down > 0 {
		f.down--
		return store.ErrUnavailable
	}
	if f.takes > f.left {
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

// A rig is an inbox that can lose its store, and another over the same one that can't.
type rig struct {
	*failing
	doomed, live *inbox.Transactional[rows]
	log          bytes.Buffer // live's
}

func rigged(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Helper()
	bubble(t, func(t *testing.T, st *memstore.Store) {
		e := &failing{engine: newEngine(st), left: always}
		doomed, err := inbox.NewTransactional[rows](e)
		require.NoError(t, err)
		r := &rig{failing: e, doomed: doomed}
		r.live, err = inbox.NewTransactional[rows](e.engine, inbox.Logger(slog.New(slog.NewTextHandler(&r.log, nil))))
		require.NoError(t, err)
		f(t, r)
	})
}

// commits is a handler that commits by itself and returns err. From then on the store is as it was told to be.
func (r *rig) commits(err error) inbox.TxHandler[rows] {
	return func(ctx context.Context, tx rows, ev inbox.Event) error {
		_ = credit(nil)(ctx, tx, ev)
		r.commit(tx)
		r.armed, r.takes = true, 0
		return err
	}
}

// requireUnknown says that the event was applied once, will not be again, and is listed.
func (r *rig) requireUnknown(t *testing.T) inbox.DeadLetter {
	t.Helper()
	got, err := r.live.Receive(t.Context(), event, credit(nil))
	require.NoError(t, err)
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
