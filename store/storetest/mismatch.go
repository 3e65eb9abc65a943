package storetest

import "github.com/redo-go/redo/store"

var mismatchCases = []Case{{
	Name: "other payload in flight is a mismatch",
	Rule: "A key that is reused for another payload is a mismatch in every state. The mismatch wins over in flight, " +
		"because waiting for the owner would not help.",
	run: func(t *trial) {
		st := t.open()
		g := t.reserve(st, leased("k"), store.Acquired)
		t.mismatch(st)
		t.ok(st.Complete(t.Context(), g.Lease, store.Outcome{}), "Complete by the owner")
	},
}, {
	Name: "other payload on a record without a lease is a mismatch",
	Rule: "A mismatch takes nothing over: the pending record stays its owner's and keeps its payload.",
	run: func(t *trial) {
		st := t.open()
		g := t.reserve(st, unleased("k"), store.Acquired)
		t.mismatch(st)
		t.ok(st.Complete(t.Context(), g.Lease, store.Outcome{}), "Complete by the owner")
	},
}, {
	Name: "other payload after the lease's end is a mismatch",
	Rule: "A dead owner's record is still the record of its payload; another payload does not take it over.",
	run: func(t *trial) {
		st := t.open()
		l := t.reserve(st, leased("k"), store.Acquired).Lease
		t.ok(st.Extend(t.Context(), l, 0, nil), "Extend by zero")
		t.mismatch(st)
	},
}, {
	Name: "other payload on a complete record is a mismatch",
	Rule: "A mismatch never runs the work again and never hands the record to the claim.",
	run: func(t *trial) {
		st := t.open()
		t.settle(st, leased("k"), store.Outcome{Result: []byte("result")})
		t.mismatch(st)
	},
}, {
	Name: "other payload on a failed record is a mismatch",
	Rule: "A failed record keeps its payload as a complete one does.",
	run: func(t *trial) {
		st := t.open()
		t.settle(st, leased("k"), store.Outcome{Failed: true, Result: []byte("result")})
		t.mismatch(st)
	},
}, {
	Name: "fingerprints are compared to the last byte",
	Rule: "A fingerprint is a version and a hash. Two payloads are the same only if all of it is equal: a version, or a " +
		"byte of the hash, that is not compared lets one payload get another's result.",
	run: func(t *trial) {
		st := t.open()
		pending, settled := unleased("pending"), leased("settled")
		t.reserve(st, pending, store.Acquired)
		t.settle(st, settled, store.Outcome{Result: []byte("result")})
		for i := range pending.Fingerprint {
			for _, c := range []store.Claim{pending, settled} {
				c.Fingerprint[i] ^= 1
				t.reserve(st, c, store.Mismatch)
			}
		}
		t.reserve(st, pending, store.TakenOver)
		t.reserve(st, settled, store.Complete)
	},
}, {
	Name: "no fingerprint equals only itself",
	Rule: "The zero fingerprint is a value like any other: it matches a record without one and mismatches every " +
		"record with one, in both directions.",
	run: func(t *trial) {
		st := t.open()
		with, without := unleased("with"), unleased("without")
		without.Fingerprint = store.Fingerprint{}
		t.reserve(st, with, store.Acquired)
		t.reserve(st, without, store.Acquired)
		t.reserve(st, without, store.TakenOver)

		with.Fingerprint, without.Fingerprint = without.Fingerprint, with.Fingerprint
		t.reserve(st, with, store.Mismatch)
		t.reserve(st, without, store.Mismatch)
	},
}}

// mismatch claims the ID "k" with another payload, which must be refused, show the record and change nothing.
func (t *trial) mismatch(st store.Store) {
	t.Helper()
	c := leased("k")
	c.Fingerprint, c.Meta, c.Retention = payload("another"), []byte("meta of another"), 3*day
	before := t.find(st, c.ID)
	g := t.reserve(st, c, store.Mismatch)
	if g.Lease != (store.Lease{}) {
		t.fatalf("a mismatch got the lease %+v", g.Lease)
	}
	if g.Record.Fingerprint != before.Fingerprint || g.Record.State != before.State || g.Record.Fence != before.Fence {
		t.fatalf("a mismatch is shown a record %s under fence %d, want the existing one, %s under %d",
			g.Record.State, g.Record.Fence, before.State, before.Fence)
	}
	t.bytes(g.Record.Result, before.Result, "the result that a mismatch is shown")
	t.unchanged(st, before)
}
