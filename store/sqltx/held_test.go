package sqltx_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/store/sqltx"
)

// An ended engine's transactions have ended before their Commit and Rollback.
type ended struct {
	sqltx.Engine
	tx *sql.Tx
}

func (ended) Gone(error) bool { return true }
func (e ended) Rollback()     { _ = e.tx.Rollback() }

// An unreadable store is down for reads.
type unreadable struct{ store.Store }

func (unreadable) Find(context.Context, store.ID) (store.Record, error) {
	return store.Record{}, store.ErrUnavailable
}

// The record shows whether an ended transaction was committed: its fence is then the transaction's.
func TestRollbackOfAnEndedTransaction(t *testing.T) {
	c := store.Claim{ID: id, Retention: store.Forever}
	for _, with := range []struct {
		name    string
		later   uint64 // the transaction's fence, less that of the record
		store   func(store.Store) store.Store
		unknown bool
	}{
		{"an older record", 1, func(st store.Store) store.Store { return st }, false},
		{"the transaction's record", 0, func(st store.Store) store.Store { return st }, true},
		{"a record that can't be read", 1, func(st store.Store) store.Store { return unreadable{st} }, true},
		{"no record", 1, func(store.Store) store.Store { return memstore.New() }, false},
	} {
		t.Run(with.name, func(t *testing.T) {
			db := sql.OpenDB(&engine{})
			defer db.Close()
			tx, err := db.Begin()
			require.NoError(t, err)
			st := memstore.New()
			g, err := st.Reserve(t.Context(), c)
			require.NoError(t, err)
			h, err := sqltx.Hold(t.Context(), with.store(st), tx, c, g.Lease.Fence+with.later, ended{tx: tx})
			require.NoError(t, err)
			if err = h.Rollback(t.Context()); with.unknown {
				require.ErrorIs(t, err, store.ErrTxEnded)
				return
			}
			require.NoError(t, err)
		})
	}
}
