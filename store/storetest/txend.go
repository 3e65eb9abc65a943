package storetest

import (
	"context"
	"strings"
	"time"

	"github.com/redo-go/redo/store"
)

var txEndCases = []Case{{
	Name: "rollback after the end does nothing",
	Rule: "A Rollback after Commit, Discard or Rollback returns nil and undoes nothing, so that it can be deferred.",
	run: func(t *trial) {
		st := t.openTx()
		for key, want := range map[string]int{"Commit": 1, "Discard": 0} {
			tx, g := t.begin(st, unleased(key), store.Acquired)
			t.write(tx, key)
			if key == "Commit" {
				t.ok(tx.Commit(t.Context(), store.Outcome{}), key)
			} else {
				t.ok(tx.Discard(t.Context(), store.Outcome{}), key)
			}
			before := t.settled(st, g, store.Outcome{})
			for range 2 {
				t.ok(tx.Rollback(t.Context()), "Rollback after "+key)
			}
			t.unchanged(st, before)
			t.effects(st, key, want)
		}
		tx, _ := t.begin(st, unleased("k"), store.Acquired)
		t.ok(tx.Rollback(t.Context()), "Rollback")
		t.ok(tx.Rollback(t.Context()), "Rollback after Rollback")
		next, _ := t.begin(st, unleased("k"), store.Acquired)
		t.ok(tx.Rollback(t.Context()), "Rollback after another transaction began")
		t.inFlight(st, unleased("k"))
		t.ok(next.Commit(t.Context(), store.Outcome{}), "Commit")
	},
}, {
	Name: "ended transaction cannot be settled",
	Rule: "A transaction ends once: a Commit or a Discard after that is an error, and neither a write that was " +
		"rolled back nor a settled record changes by it.",
	run: func(t *trial) {
		st := t.openTx()
		for _, second := range settling {
			for _, first := range settling {
				key := first.name + " then " + second.name
				tx, g := t.begin(st, unleased(key), store.Acquired)
				t.write(tx, key)
				t.ok(first.end(tx, t.Context(), store.Outcome{Result: []byte("first")}), first.name)
				before := t.settled(st, g, store.Outcome{Result: []byte("first")})
				t.refused(second.end(tx, t.Context(), store.Outcome{Failed: true, Result: []byte("second")}), key)
				t.unchanged(st, before)
				t.effects(st, key, map[string]int{"Commit": 1, "Discard": 0}[first.name])
			}
			key := "Rollback then " + second.name
			tx, g := t.begin(st, unleased(key), store.Acquired)
			t.write(tx, key)
			t.ok(tx.Rollback(t.Context()), "Rollback")
			t.refused(second.end(tx, t.Context(), store.Outcome{}), key)
			t.absent(st, g.Lease.ID)
			t.effects(st, key, 0)
		}
	},
}, {
	Name: "invalid claim begins nothing",
	Rule: "A claim that breaks a rule is ErrInvalid to Begin as it is to Reserve, the parts that Begin does not use " +
		"included: no transaction is left open.",
	run: func(t *trial) {
		st := t.openTx()
		before := t.reserve(st, unleased("standing"), store.Acquired).Record
		for what, spoil := range map[string]func(*store.Claim){
			"a negative lease":  func(c *store.Claim) { c.Lease = -1 },
			"an endless lease":  func(c *store.Claim) { c.Lease = store.Forever },
			"no retention":      func(c *store.Claim) { c.Retention = 0 },
			"too long a meta":   func(c *store.Claim) { c.Meta = make([]byte, store.MaxMeta+1) },
			"too long an owner": func(c *store.Claim) { c.Owner = strings.Repeat("o", store.MaxOwner+1) },
			"no key":            func(c *store.Claim) { c.ID.Key = "" },
			"too long a key":    func(c *store.Claim) { c.ID.Key = strings.Repeat("k", store.MaxKey+1) },
			"too long a scope":  func(c *store.Claim) { c.ID.Scope = strings.Repeat("s", store.MaxScope+1) },
			"a past expiration": func(c *store.Claim) { c.Retention = -time.Second },
		} {
			for _, key := range []string{"standing", "absent"} {
				c := unleased(key)
				spoil(&c)
				t.notBegun(st, t.patient(), c, store.ErrInvalid, "Begin with "+what)
			}
		}
		t.unchanged(st, before)
		t.absent(st, unleased("absent").ID)
		tx, _ := t.begin(st, unleased("absent"), store.Acquired)
		t.ok(tx.Rollback(t.Context()), "Rollback")
		t.begin(st, unleased("standing"), store.TakenOver)
	},
}, {
	Name: "invalid outcome does nothing and ends the transaction",
	Rule: "A negative retention is ErrInvalid, by Commit and by Discard. Nothing of the transaction is kept and " +
		"nothing of it is left open.",
	run: func(t *trial) {
		st := t.openTx()
		for _, way := range settling {
			tx, g := t.begin(st, unleased(way.name), store.Acquired)
			t.write(tx, way.name)
			t.is(way.end(tx, t.Context(), store.Outcome{Retention: -time.Second}), store.ErrInvalid, way.name)
			t.undone(st, g, way.name)
			t.ok(tx.Rollback(t.Context()), "Rollback after "+way.name)
		}
	},
}, {
	Name: "ended context begins nothing",
	Rule: "Begin returns the error of a context that has ended before the call. It opens no transaction, with and " +
		"without a record.",
	run: func(t *trial) {
		st := t.openTx()
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		before := t.reserve(st, unleased("standing"), store.Acquired).Record
		t.settle(st, unleased("complete"), store.Outcome{})
		for _, key := range []string{"standing", "complete", "absent"} {
			t.notBegun(st, canceled, unleased(key), context.Canceled, "Begin under an ended context")
		}
		t.unchanged(st, before)
		t.absent(st, unleased("absent").ID)
		tx, _ := t.begin(st, unleased("absent"), store.Acquired)
		t.ok(tx.Rollback(t.Context()), "Rollback")
		t.begin(st, unleased("standing"), store.TakenOver)
	},
}, {
	Name: "transaction outlives begin's context",
	Rule: "The context bounds Begin alone: when it ends the transaction stays open, holds its ID and commits.",
	run: func(t *trial) {
		st, c := t.openTx(), unleased("k")
		ctx, cancel := context.WithCancel(t.Context())
		tx, g, err := st.Begin(ctx, c)
		if tx != nil {
			t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
		}
		if err != nil || tx == nil {
			t.fatalf("Begin of %v: verdict %q, error %v", c.ID, g.Verdict, err)
		}
		cancel()
		// An engine that ends a transaction behind its owner's back does so in a separate goroutine.
		<-time.After(short)
		t.inFlight(st, c)
		t.write(tx, "k")
		t.ok(tx.Commit(t.Context(), store.Outcome{}), "Commit")
		t.settled(st, g, store.Outcome{})
		t.effects(st, "k", 1)
	},
}, {
	Name: "ended context settles nothing and ends the transaction",
	Rule: "A context that has ended before Commit or Discard is returned as its error; nothing of the transaction is " +
		"kept, and nothing of it is left open.",
	run: func(t *trial) {
		st := t.openTx()
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		for _, way := range settling {
			tx, g := t.begin(st, unleased(way.name), store.Acquired)
			t.write(tx, way.name)
			t.is(way.end(tx, canceled, store.Outcome{}), context.Canceled, way.name+" under an ended context")
			t.undone(st, g, way.name)
			t.ok(tx.Rollback(t.Context()), "Rollback after "+way.name)
		}
	},
}, {
	Name: "rollback under an ended context ends the transaction",
	Rule: "Whatever Rollback returns, the transaction is over: a caller that is out of time leaves no ID held.",
	run: func(t *trial) {
		st := t.openTx()
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		tx, g := t.begin(st, unleased("k"), store.Acquired)
		t.write(tx, "k")
		_ = tx.Rollback(canceled)
		t.refused(tx.Commit(t.Context(), store.Outcome{}), "Commit after Rollback under an ended context")
		t.undone(st, g, "k")
	},
}}

// refused checks that a call on a transaction that is over reports that.
func (t *trial) refused(err error, call string) {
	t.Helper()
	if err == nil {
		t.fatalf("%s: no error, want one, since the transaction is over", call)
	}
}

// notBegun makes a claim that must end in an error.
func (t *trial) notBegun(st store.TxStore[any], ctx context.Context, c store.Claim, want error, call string) {
	t.Helper()
	tx, g, err := st.Begin(ctx, c)
	if tx != nil {
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
		t.fatalf("%s: verdict %q, error %v and an open transaction", call, g.Verdict, err)
	}
	t.is(err, want, call)
}

// undone checks that nothing is left of the grant's transaction. An engine whose connection was broken off may take a
// moment to notice.
func (t *trial) undone(st store.TxStore[any], g store.Grant, key string) {
	t.Helper()
	var next store.Tx[any]
	t.until("the ID is free after its transaction", func() bool {
		tx, again, err := st.Begin(t.patient(), unleased(key))
		t.ok(err, "Begin")
		if tx == nil && again.Verdict != store.InFlight {
			t.fatalf("Begin of %v: verdict %q, want %q", g.Lease.ID, again.Verdict, store.Acquired)
		}
		next = tx
		return tx != nil
	})
	t.ok(next.Rollback(t.Context()), "Rollback")
	t.absent(st, g.Lease.ID)
	t.effects(st, key, 0)
}
