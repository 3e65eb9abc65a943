package boltoutbox_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/boltoutbox"
	"github.com/redo-go/redo/outbox/outboxtest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
)

func TestContract(t *testing.T) {
	stores := map[outboxtest.Queue]*boltstore.Store{}
	at := func(t *testing.T, st *boltstore.Store) outboxtest.Queue {
		q, err := boltoutbox.New(t.Context(), st)
		require.NoError(t, err)
		stores[q] = st
		return q
	}
	outboxtest.Run(t, outboxtest.Harness{
		Open: func(t *testing.T) outboxtest.Queue {
			return at(t, open(t, filepath.Join(t.TempDir(), "outbox.redo")))
		},
		Beside: func(t *testing.T, first outboxtest.Queue) outboxtest.Queue { return at(t, stores[first]) },
		Begin: func(t *testing.T, q outboxtest.Queue) outboxtest.Tx {
			return begin(t, stores[q], q.(*boltoutbox.Queue))
		},
		Spoil: func(t *testing.T, q outboxtest.Queue, id, destination string) {
			spoil(t, stores[q], "events", seqOf(t, stores[q], id, destination))
		},
		SingleWriter: true,
	})
}

func open(t testing.TB, path string, opts ...boltstore.Option) *boltstore.Store {
	t.Helper()
	st, err := boltstore.Open(path, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

var records atomic.Int64

// begin opens a transaction as package server does, with a record that commits together with the effect.
func begin(t testing.TB, st *boltstore.Store, q *boltoutbox.Queue) transaction {
	t.Helper()
	id := store.ID{Key: fmt.Sprint(records.Add(1))}
	tx, g, err := st.Begin(t.Context(), store.Claim{ID: id, Retention: store.Forever})
	require.NoError(t, err)
	require.Equal(t, store.Acquired, g.Verdict)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return transaction{q, tx}
}

type transaction struct {
	q  *boltoutbox.Queue
	tx store.Tx[*boltstore.Tx]
}

func (x transaction) Enqueue(ctx context.Context, ev outbox.Event) (string, error) {
	return x.q.Enqueue(ctx, x.tx.Tx(), ev)
}

func (x transaction) EnqueueBatch(ctx context.Context, events []outbox.Event) ([]string, error) {
	return x.q.EnqueueBatch(ctx, x.tx.Tx(), events)
}

func (x transaction) Commit(ctx context.Context) error   { return x.tx.Commit(ctx, store.Outcome{}) }
func (x transaction) Rollback(ctx context.Context) error { return x.tx.Rollback(ctx) }
