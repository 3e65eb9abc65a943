package storetest

import (
	"time"

	"github.com/redo-go/redo/store"
)

var txBeginCases = []Case{{
	Name: "begin of an absent id acquires it",
	Rule: "Begin makes the same record as Reserve, except that it does not use the claim's lease and meta, and that " +
		"the lease does not extend the retention.",
	run: func(t *trial) {
		st, c := t.openTx(), leased("k")
		c.Lease = 3 * day
		start := time.Now()
		tx, g := t.begin(st, c, store.Acquired)
		call := time.Since(start)
		if g.Record.Fingerprint != c.Fingerprint {
			t.fatalf("the fingerprint is %v, want %v", g.Record.Fingerprint, c.Fingerprint)
		}
		if left := g.Record.LeaseLeft(); left != 0 {
			t.fatalf("the record has a lease of %v, want none", left)
		}
		t.bytes(g.Record.Meta, nil, "the meta of a record that Begin made")
		t.bytes(g.Record.Result, nil, "the result of a pending record")
		t.span(g.Record.ExpiresAt.Sub(g.Record.CreatedAt), c.Retention, call, "creation and expiry")

		t.ok(tx.Commit(t.Context(), store.Outcome{}), "Commit")
		r := t.settled(st, g, store.Outcome{})
		t.bytes(r.Meta, nil, "the meta of a record that Begin made")
		if r.Fingerprint != c.Fingerprint || !r.CreatedAt.Equal(g.Record.CreatedAt) {
			t.fatalf("the record is of %v, created at %v, want %v and %v",
				r.Fingerprint, r.CreatedAt, c.Fingerprint, g.Record.CreatedAt)
		}
	},
}, {
	Name: "settled record answers begin with its result",
	Rule: "A Begin on a settled record is Complete or Failed, and gets result and meta. No transaction is opened and " +
		"nothing is changed, also if no transaction has settled the record.",
	run: func(t *trial) {
		st := t.openTx()
		for _, want := range []store.Verdict{store.Complete, store.Failed} {
			c := leased(want.String())
			t.settle(st, c, store.Outcome{Failed: want == store.Failed, Result: []byte("result")})
			before := t.find(st, c.ID)
			again := c
			again.Meta, again.Retention = []byte("meta of the second"), 3*day
			for range 2 {
				r := t.denied(st, again, want)
				t.state(r, before.State)
				t.bytes(r.Result, []byte("result"), "the result")
				t.bytes(r.Meta, c.Meta, "the meta")
				t.unchanged(st, before)
			}
		}
	},
}, {
	Name: "live lease excludes a transaction",
	Rule: "An owner with a lease and one with a transaction exclude each other: a Begin is in flight behind a live " +
		"lease, is shown its record, and leaves its owner's right as it was.",
	run: func(t *trial) {
		st := t.openTx()
		first := t.reserve(st, leased("k"), store.Acquired)
		c := unleased("k")
		c.Retention = 3 * day
		r := t.denied(st, c, store.InFlight)
		if r.Fence != first.Lease.Fence || r.LeaseLeft() == 0 {
			t.fatalf("the record is under fence %d with %v left, want the owner's fence %d and its lease live",
				r.Fence, r.LeaseLeft(), first.Lease.Fence)
		}
		t.unchanged(st, first.Record)
		t.ok(st.Complete(t.patient(), first.Lease, store.Outcome{}), "Complete by the owner")
	},
}, {
	Name: "other payload is a mismatch to begin",
	Rule: "A key that is reused for another payload is a mismatch in every state. Begin shows the record, opens " +
		"nothing and takes nothing over.",
	run: func(t *trial) {
		st := t.openTx()
		t.reserve(st, leased("leased"), store.Acquired)
		t.reserve(st, unleased("unleased"), store.Acquired)
		t.settle(st, leased("complete"), store.Outcome{Result: []byte("result")})
		t.settle(st, leased("failed"), store.Outcome{Failed: true, Result: []byte("result")})
		for _, key := range []string{"leased", "unleased", "complete", "failed"} {
			c := unleased(key)
			c.Fingerprint, c.Retention = payload("another"), 3*day
			before := t.find(st, c.ID)
			r := t.denied(st, c, store.Mismatch)
			if r.Fingerprint != before.Fingerprint || r.State != before.State || r.Fence != before.Fence {
				t.fatalf("a mismatch is shown a record %s under fence %d, want the existing one, %s under %d",
					r.State, r.Fence, before.State, before.Fence)
			}
			t.bytes(r.Result, before.Result, "the result that a mismatch is shown")
			t.unchanged(st, before)
		}
	},
}, {
	Name: "begin takes over a record without a live lease",
	Rule: "Pending work of a dead owner is taken over: the verdict is TakenOver, and the new owner gets the meta. " +
		"Other callers see that after the commit only, which keeps meta and creation time. Retention counts from " +
		"the Begin.",
	run: func(t *trial) {
		st := t.openTx()
		ended := unleased("its lease ended")
		ended.Lease = short
		for _, c := range []store.Claim{unleased("never had one"), ended} {
			before := t.reserve(st, c, store.Acquired).Record
			t.leaseEnds(st, c.ID)
			t.aged(st, c.ID, short)
			again := c
			again.Meta, again.Retention = []byte("meta of the second"), 3*day
			start := time.Now()
			tx, g := t.begin(st, again, store.TakenOver)
			t.span(g.Record.ExpiresAt.Sub(g.Record.ReadAt), again.Retention, time.Since(start),
				"the take-over and expiry")
			if left := g.Record.LeaseLeft(); left != 0 {
				t.fatalf("the record has a lease of %v, want none", left)
			}
			t.write(tx, c.ID.Key)
			t.unchanged(st, before)
			t.ok(tx.Commit(t.Context(), store.Outcome{Result: []byte("result")}), "Commit")
			for _, r := range []store.Record{g.Record, t.settled(st, g, store.Outcome{Result: []byte("result")})} {
				t.bytes(r.Meta, before.Meta, "the meta after a take-over")
				if !r.CreatedAt.Equal(before.CreatedAt) || !r.ExpiresAt.Equal(g.Record.ExpiresAt) {
					t.fatalf("created at %v and expires at %v, want %v and %v",
						r.CreatedAt, r.ExpiresAt, before.CreatedAt, g.Record.ExpiresAt)
				}
			}
			t.effects(st, c.ID.Key, 1)
		}
	},
}, {
	Name: "discard settles a record that was taken over",
	Rule: "The refusal of work that an earlier owner began is kept too. Only the writes of this transaction are " +
		"undone.",
	run: func(t *trial) {
		st, c := t.openTx(), unleased("k")
		before := t.reserve(st, c, store.Acquired).Record
		tx, g := t.begin(st, c, store.TakenOver)
		t.write(tx, "k")
		o := store.Outcome{Failed: true, Result: []byte("refused")}
		t.ok(tx.Discard(t.Context(), o), "Discard")
		t.bytes(t.settled(st, g, o).Meta, before.Meta, "the meta")
		t.effects(st, "k", 0)
	},
}, {
	Name: "rollback leaves a record that was taken over as it was",
	Rule: "Rollback undoes the take-over too: the record is under its earlier owner's fence, and that owner may " +
		"still complete it.",
	run: func(t *trial) {
		st, c := t.openTx(), unleased("k")
		first := t.reserve(st, c, store.Acquired)
		again := c
		again.Retention = 3 * day
		tx, g := t.begin(st, again, store.TakenOver)
		t.write(tx, "k")
		t.ok(tx.Rollback(t.Context()), "Rollback")
		t.unchanged(st, first.Record)
		t.effects(st, "k", 0)
		t.is(st.Complete(t.patient(), g.Lease, store.Outcome{}),
			store.ErrLost, "Complete under the lease that was rolled back")
		t.unchanged(st, first.Record)
		t.ok(st.Complete(t.patient(), first.Lease, store.Outcome{Result: []byte("first")}),
			"Complete by the first owner")
		t.bytes(t.denied(st, c, store.Complete).Result, []byte("first"), "the result")
	},
}, {
	Name: "expired record is absent to begin",
	Rule: "An expired record, pending or settled, is acquired immediately. The new record inherits nothing, not even " +
		"the payload, and a rollback does not restore the old one.",
	run: func(t *trial) {
		st := t.openTx()
		pending := unleased("pending")
		pending.Retention = short
		t.reserve(st, pending, store.Acquired)
		settled := unleased("settled")
		t.settle(st, settled, store.Outcome{Result: []byte("old"), Retention: short})
		for _, c := range []store.Claim{pending, settled} {
			t.expires(st, c.ID)
			c.Fingerprint, c.Retention = payload("another"), day
			tx, _ := t.begin(st, c, store.Acquired)
			t.absent(st, c.ID)
			t.ok(tx.Rollback(t.Context()), "Rollback")
			t.absent(st, c.ID)

			tx, g := t.begin(st, c, store.Acquired)
			t.bytes(g.Record.Meta, nil, "the meta of a new record")
			t.bytes(g.Record.Result, nil, "the result of a new record")
			t.ok(tx.Commit(t.Context(), store.Outcome{Result: []byte("new")}), "Commit")
			r := t.settled(st, g, store.Outcome{Result: []byte("new")})
			t.bytes(r.Meta, nil, "the meta of a new record")
			if r.Fingerprint != c.Fingerprint {
				t.fatalf("the fingerprint is %v, want %v", r.Fingerprint, c.Fingerprint)
			}
		}
	},
}}
