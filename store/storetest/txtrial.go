package storetest

import (
	"context"
	"slices"
	"time"

	"github.com/redo-go/redo/store"
)

// settling is the ways to settle a record.
var settling = []struct {
	name string
	end  func(tx store.Tx[any], ctx context.Context, o store.Outcome) error
}{{"Commit", store.Tx[any].Commit}, {"Discard", store.Tx[any].Discard}}

func (t *trial) openTx() store.TxStore[any] { return t.open().(store.TxStore[any]) }

// tryBegin makes a claim that must get one of the verdicts. A transaction that it opens ends with the case.
func (t *trial) tryBegin(st store.TxStore[any], c store.Claim, want ...store.Verdict) (store.Tx[any], store.Grant) {
	t.Helper()
	tx, g, err := st.Begin(t.patient(), c)
	if tx != nil {
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	}
	if err != nil {
		t.fatalf("Begin of %v: %v", c.ID, err)
	}
	if !slices.Contains(want, g.Verdict) {
		t.fatalf("Begin of %v: verdict %q, want %q", c.ID, g.Verdict, want)
	}
	return tx, g
}

// begin makes a claim that must be granted with the verdict.
func (t *trial) begin(st store.TxStore[any], c store.Claim, want store.Verdict) (store.Tx[any], store.Grant) {
	t.Helper()
	tx, g := t.tryBegin(st, c, want)
	if tx == nil {
		t.fatalf("Begin of %v: verdict %q and no transaction", c.ID, g.Verdict)
	}
	if g.Lease != g.Record.Lease() || g.Lease.ID != c.ID {
		t.fatalf("the lease is %+v, and the record of %v is under %+v", g.Lease, c.ID, g.Record.Lease())
	}
	t.state(g.Record, store.StatePending)
	return tx, g
}

// denied makes a claim that must not be granted, and must get one of the verdicts.
func (t *trial) denied(st store.TxStore[any], c store.Claim, want ...store.Verdict) store.Record {
	t.Helper()
	tx, g := t.tryBegin(st, c, want...)
	if tx != nil || g.Lease != (store.Lease{}) {
		t.fatalf("Begin of %v: %q came with the lease %+v and a transaction that is nil: %t; want neither",
			c.ID, g.Verdict, g.Lease, tx == nil)
	}
	return g.Record
}

// patient returns a context for a call that must not have to wait for a transaction. It outlives the case.
func (t *trial) patient() context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func (t *trial) write(tx store.Tx[any], key string) {
	t.Helper()
	t.ok(t.engine.write(t.Context(), tx.Tx(), key), "a write in the transaction")
}

// effects checks how many effects with the key are committed.
func (t *trial) effects(st store.TxStore[any], key string, want int) {
	t.Helper()
	got, err := t.engine.written(t.Context(), st, key)
	t.ok(err, "counting effects")
	if got != want {
		t.fatalf("%d effects of %q are committed, want %d", got, key, want)
	}
}

// settled finds a record that must have been settled by the grant's transaction with the outcome.
func (t *trial) settled(st store.Store, g store.Grant, o store.Outcome) store.Record {
	t.Helper()
	r := t.find(st, g.Lease.ID)
	want := store.StateComplete
	if o.Failed {
		want = store.StateFailed
	}
	t.state(r, want)
	t.bytes(r.Result, o.Result, "the result")
	t.owned(r, "")
	if r.Fence != g.Lease.Fence {
		t.fatalf("the record is settled under fence %d, want the transaction's, %d", r.Fence, g.Lease.Fence)
	}
	if r.LeaseLeft() != 0 {
		t.fatalf("the settled record has a lease of %v", r.LeaseLeft())
	}
	return r
}

// failStatement makes a statement in the transaction fail, or skips the case.
func (t *trial) failStatement(tx store.Tx[any]) {
	t.Helper()
	if t.engine.fail == nil {
		t.Skipf("the harness has no Fail")
	}
	if err := t.engine.fail(t.Context(), tx.Tx()); err == nil {
		t.fatalf("the statement that was to fail succeeded")
	}
}

// start calls f in a goroutine, for a call that may have to wait for a transaction. The function that it returns waits
// for f's result, and ends the case when there is none.
func (t *trial) start(call string, f func(ctx context.Context) error) (result func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	var err error
	go func() {
		defer close(done)
		err = f(ctx)
	}()
	// It waits by the time that this has passed, if it must. The rules hold if it is late too.
	<-time.After(short / 4)
	wait := func() bool {
		late := time.NewTimer(patience)
		defer late.Stop()
		select {
		case <-done:
			return true
		case <-late.C:
			return false
		}
	}
	t.Cleanup(func() {
		cancel()
		if !wait() {
			t.Errorf("%s outlives its context", call)
		}
	})
	return func() error {
		t.Helper()
		if !wait() {
			t.fatalf("%s has not returned within %v", call, patience)
		}
		return err
	}
}
