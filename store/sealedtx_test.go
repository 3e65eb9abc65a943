package store_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/ledger"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/storetest"
)

func TestASealedStoreKeepsTheContractOfTransactions(t *testing.T) {
	k := keyring(t, store.SealKeys{Seal: sealKey("a")})
	for name, open := range map[string]func() *ledger.Store{
		"many writers":  ledger.New,
		"single writer": ledger.NewSingleWriter,
	} {
		t.Run(name, func(t *testing.T) {
			engines := map[store.Store]*ledger.Store{}
			storetest.RunTx(t, storetest.TxHarness[*ledger.Tx]{
				Open: func(*testing.T) store.TxStore[*ledger.Tx] {
					engine := open()
					st := store.SealedTx(engine, k)
					engines[st] = engine
					return st
				},
				Write: func(_ context.Context, tx *ledger.Tx, key string) error { return tx.Add(key) },
				Written: func(_ context.Context, st store.TxStore[*ledger.Tx], key string) (int, error) {
					return engines[st].Entries(key), nil
				},
				Fail:     func(_ context.Context, tx *ledger.Tx) error { return tx.Fail() },
				Commit:   func(_ context.Context, tx *ledger.Tx) error { return tx.Commit() },
				Rollback: func(_ context.Context, tx *ledger.Tx) error { return tx.Rollback() },
				Ends: []func(context.Context, *ledger.Tx) error{
					func(_ context.Context, tx *ledger.Tx) error { return tx.End(true) },
					func(_ context.Context, tx *ledger.Tx) error { return tx.End(false) },
				},
				SingleWriter: name == "single writer",
			}, storetest.Virtual())
		})
	}
}

func TestATransactionThatCannotReadItsRecordIsRolledBack(t *testing.T) {
	engine := ledger.New()
	old := store.SealedTx(engine, keyring(t, store.SealKeys{Seal: sealKey("old")}))
	c := claim("k")
	c.Lease = 0
	reserve(t, old, c, store.Acquired)

	st := store.SealedTx(engine, keyring(t, store.SealKeys{Seal: sealKey("new")}))
	tx, g, err := st.Begin(t.Context(), c)
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.Nil(t, tx)
	require.Zero(t, g)

	tx, g, err = old.Begin(t.Context(), c)
	require.NoError(t, err, "the failed Begin holds nothing")
	require.Equal(t, store.TakenOver, g.Verdict)
	require.Equal(t, "meta k", string(g.Record.Meta))
	require.NoError(t, tx.Commit(t.Context(), store.Outcome{Result: []byte("done")}))
	kept, err := engine.Find(t.Context(), c.ID)
	require.NoError(t, err)
	require.NotContains(t, string(kept.Result), "done")
}

func TestASealedTxStoreOfNothingRefusesToBegin(t *testing.T) {
	_, _, err := store.SealedTx[*ledger.Tx](nil, keyring(t, store.SealKeys{Seal: sealKey("a")})).Begin(t.Context(),
		claim("k"))
	require.ErrorIs(t, err, store.ErrInvalid)
	_, _, err = store.SealedTx[*ledger.Tx](ledger.New(), nil).Begin(t.Context(), claim("k"))
	require.ErrorIs(t, err, store.ErrInvalid)
}
