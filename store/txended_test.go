package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/ledger"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

func TestOnceCommitsNothingAfterARefusedRollback(t *testing.T) {
	st := ledger.New()
	for range 2 {
		_, again, err := store.Once(t.Context(), st, nightly,
			func(_ context.Context, tx *ledger.Tx) (store.Outcome, error) {
				require.NoError(t, tx.Add("paid"))
				_ = tx.Rollback()
				return store.Outcome{}, nil
			})
		require.ErrorIs(t, err, store.ErrTxEnded)
		require.NotErrorIs(t, err, store.ErrUnknown)
		require.False(t, again)
	}
	require.Zero(t, st.Entries("paid"))
}

func TestOnceIgnoresARefusedCommit(t *testing.T) {
	st := ledger.New()
	_, _, err := store.Once(t.Context(), st, nightly, func(_ context.Context, tx *ledger.Tx) (store.Outcome, error) {
		require.ErrorIs(t, tx.Commit(), store.ErrTxEnded)
		return store.Outcome{}, tx.Add("paid")
	})
	require.NoError(t, err)
	require.Equal(t, 1, st.Entries("paid"))
}

func TestOnceNeverRepeatsWorkThatEndedItsTransaction(t *testing.T) {
	st := ledger.New()
	_, _, err := store.Once(t.Context(), st, nightly, func(_ context.Context, tx *ledger.Tx) (store.Outcome, error) {
		require.NoError(t, tx.Add("paid"))
		return store.Outcome{}, tx.End(true)
	})
	require.ErrorIs(t, err, store.ErrTxEnded)
	require.ErrorIs(t, err, store.ErrUnknown)
	_, again, err := store.Once(t.Context(), st, nightly, runs(t))
	require.ErrorIs(t, err, store.ErrUnknown)
	require.False(t, again)
	require.Equal(t, 1, st.Entries("paid"))
}

func TestSettleEndedSettlesARecordWithoutAnOwner(t *testing.T) {
	for name, before := range map[string]func(st store.Store) uint64{
		"absent": func(store.Store) uint64 { return 0 },
		"pending without a lease": func(st store.Store) uint64 {
			g, err := st.Reserve(t.Context(), nightly)
			require.NoError(t, err)
			return g.Lease.Fence
		},
	} {
		t.Run(name, func(t *testing.T) {
			st := memstore.New()
			fence := before(st)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			err := store.SettleEnded(ctx, st, nightly)
			require.EqualError(t, err, store.ErrTxEnded.Error()+"\n"+store.ErrUnknown.Error())
			rec, err := st.Find(t.Context(), nightly.ID)
			require.NoError(t, err)
			require.True(t, rec.OutcomeUnknown())
			require.Equal(t, nightly.Fingerprint, rec.Fingerprint)
			require.Greater(t, rec.Fence, fence)
			require.Empty(t, rec.Owner)
		})
	}
}

func TestSettleEndedLeavesTheRecordOfAnotherOwner(t *testing.T) {
	for name, before := range map[string]func(st store.Store){
		"leased": func(st store.Store) {
			c := nightly
			c.Lease = time.Minute
			_, err := st.Reserve(t.Context(), c)
			require.NoError(t, err)
		},
		"settled": func(st store.Store) {
			g, err := st.Reserve(t.Context(), nightly)
			require.NoError(t, err)
			require.NoError(t, st.Complete(t.Context(), g.Lease, store.Outcome{Result: []byte("receipt")}))
		},
		"of another payload": func(st store.Store) {
			c := nightly
			c.Fingerprint = store.Fingerprint{}
			_, err := st.Reserve(t.Context(), c)
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			st := memstore.New(memstore.WithClock(func() time.Time { return time.Unix(1e9, 0) }))
			before(st)
			want, err := st.Find(t.Context(), nightly.ID)
			require.NoError(t, err)
			err = store.SettleEnded(t.Context(), st, nightly)
			require.ErrorIs(t, err, store.ErrTxEnded)
			require.ErrorIs(t, err, store.ErrUnknown)
			got, err := st.Find(t.Context(), nightly.ID)
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

func TestSettleEndedReturnsTheErrorOfAStoreThatIsDown(t *testing.T) {
	st := memstore.New()
	require.NoError(t, st.Close())
	err := store.SettleEnded(t.Context(), st, nightly)
	require.ErrorIs(t, err, store.ErrTxEnded)
	require.ErrorIs(t, err, store.ErrUnknown)
	require.ErrorIs(t, err, store.ErrUnavailable)
}
