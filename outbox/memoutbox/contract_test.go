package memoutbox_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/memoutbox"
	"github.com/redo-go/redo/outbox/outboxtest"
)

type tx struct {
	queue *memoutbox.Queue
	*memoutbox.Tx
}

func (x tx) Enqueue(ctx context.Context, ev outbox.Event) (string, error) {
	return x.queue.Enqueue(ctx, x.Tx, ev)
}

func (x tx) EnqueueBatch(ctx context.Context, evs []outbox.Event) ([]string, error) {
	return x.queue.EnqueueBatch(ctx, x.Tx, evs)
}

func (x tx) Commit(context.Context) error   { return x.Tx.Commit() }
func (x tx) Rollback(context.Context) error { return x.Tx.Rollback() }

func TestContract(t *testing.T) {
	outboxtest.Run(t, outboxtest.Harness{
		Open:   func(*testing.T) outboxtest.Queue { return memoutbox.New() },
		Beside: func(_ *testing.T, first outboxtest.Queue) outboxtest.Queue { return first },
		Begin: func(t *testing.T, q outboxtest.Queue) outboxtest.Tx {
			begun := q.(*memoutbox.Queue).Begin()
			t.Cleanup(func() { _ = begun.Rollback() })
			return tx{q.(*memoutbox.Queue), begun}
		},
	})
}

func TestConcurrentTransactionsWithOneID(t *testing.T) {
	q := memoutbox.New()
	first, second, third := q.Begin(), q.Begin(), q.Begin()
	for _, x := range []*memoutbox.Tx{first, second} {
		_, err := q.Enqueue(t.Context(), x, outbox.Event{ID: "k"})
		require.NoError(t, err)
	}
	_, err := q.Enqueue(t.Context(), third, outbox.Event{ID: "k", Destination: "d"})
	require.NoError(t, err)
	require.NoError(t, first.Commit())
	require.ErrorIs(t, second.Commit(), outbox.ErrDuplicate)
	require.NoError(t, third.Commit())
	st, err := q.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, st.Waiting)
}

func TestEndedTransactionIsRefused(t *testing.T) {
	q := memoutbox.New()
	x := q.Begin()
	require.NoError(t, x.Commit())
	require.ErrorIs(t, x.Commit(), memoutbox.ErrTxEnded)
	require.ErrorIs(t, x.Rollback(), memoutbox.ErrTxEnded)
	_, err := q.Enqueue(t.Context(), x, outbox.Event{})
	require.ErrorIs(t, err, memoutbox.ErrTxEnded)
	_, err = memoutbox.New().Enqueue(t.Context(), q.Begin(), outbox.Event{})
	require.Error(t, err)
}
