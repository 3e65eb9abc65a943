package sim

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/storetest"
)

func openDatabase(*testing.T) *database {
	return newDatabase(time.Now, func() uint64 { return 0 })
}

func TestDatabaseKeepsTheContract(t *testing.T) {
	itself := storetest.Beside(func(_ *testing.T, first store.Store) store.Store { return first })
	open := func(t *testing.T) store.Store { return openDatabase(t) }
	storetest.Run(t, open, storetest.Virtual(), itself)
	errFailed := errors.New("a statement failed")
	storetest.RunTx(t, storetest.TxHarness[*work]{
		Open:  func(t *testing.T) store.TxStore[*work] { return openDatabase(t) },
		Write: func(_ context.Context, tx *work, key string) error { tx.Insert(key); return nil },
		Written: func(_ context.Context, st store.TxStore[*work], key string) (int, error) {
			return st.(*database).effects(key), nil
		},
		Fail:     func(context.Context, *work) error { return errFailed },
		Commit:   func(_ context.Context, tx *work) error { return tx.Commit() },
		Rollback: func(_ context.Context, tx *work) error { return tx.Rollback() },
	}, storetest.Virtual(), itself)
}
