package ledger_test

import (
	"context"
	"testing"

	"github.com/redo-go/redo/internal/ledger"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/storetest"
)

// The reference is held to the contract by the same suites as every store.
func TestContract(t *testing.T) {
	for name, open := range map[string]func() *ledger.Store{
		"many writers":  ledger.New,
		"single writer": ledger.NewSingleWriter,
	} {
		t.Run(name, func(t *testing.T) {
			opts := []storetest.Option{storetest.Virtual(), storetest.Beside(itself), storetest.Reopen(itself)}
			storetest.Run(t, func(*testing.T) store.Store { return open() }, opts...)
			storetest.RunTx(t, storetest.TxHarness[*ledger.Tx]{
				Open:  func(*testing.T) store.TxStore[*ledger.Tx] { return open() },
				Write: func(_ context.Context, tx *ledger.Tx, key string) error { return tx.Add(key) },
				Written: func(_ context.Context, st store.TxStore[*ledger.Tx], key string) (int, error) {
					return st.(*ledger.Store).Entries(key), nil
				},
				Fail:     func(_ context.Context, tx *ledger.Tx) error { return tx.Fail() },
				Commit:   func(_ context.Context, tx *ledger.Tx) error { return tx.Commit() },
				Rollback: func(_ context.Context, tx *ledger.Tx) error { return tx.Rollback() },
				Ends: []func(context.Context, *ledger.Tx) error{
					func(_ context.Context, tx *ledger.Tx) error { return tx.End(true) },
					func(_ context.Context, tx *ledger.Tx) error { return tx.End(false) },
				},
				SingleWriter: name == "single writer",
			}, opts...)
		})
	}
}

// Another handle, and the store after a restart, is the store itself.
func itself(_ *testing.T, st store.Store) store.Store { return st }
