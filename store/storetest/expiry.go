package storetest

import "github.com/redo-go/redo/store"

var expiryCases = []Case{{
	Name: "expired record is absent at once",
	Rule: "A record whose retention is over is absent to Find and to Reserve, pending or settled, whether or not it " +
		"was purged; the next claim acquires the ID and inherits nothing, not even the payload or the creation time.",
	run: func(t *trial) {
		for _, meta := range [][]byte{nil, []byte("meta of the second")} {
			for _, settled := range []bool{false, true} {
				for _, found := range []bool{false, true} {
					t.inheritsNothing(settled, found, meta)
				}
			}
		}
	},
}, {
	Name: "expired record cannot be moved on",
	Rule: "An owner whose record has expired owns nothing: its calls are lost, and make no record.",
	run: func(t *trial) {
		st, c := t.open(), unleased("k")
		c.Retention = short
		l := t.reserve(st, c, store.Acquired).Lease
		t.expires(st, c.ID)
		t.is(st.Extend(t.Context(), l, long, nil), store.ErrLost, "Extend")
		t.is(st.Complete(t.Context(), l, store.Outcome{}), store.ErrLost, "Complete")
		t.is(st.Release(t.Context(), l), store.ErrLost, "Release")
		t.absent(st, c.ID)
	},
}, {
	Name: "lease keeps its record past the retention",
	Rule: "A record never expires before its lease ends, however short its retention: its owner is at work.",
	run: func(t *trial) {
		for _, verdict := range []store.Verdict{store.Acquired, store.TakenOver} {
			st, c := t.open(), leased("k")
			if verdict == store.TakenOver {
				t.reserve(st, unleased("k"), store.Acquired)
			}
			c.Retention = short
			g := t.reserve(st, c, verdict)
			if g.Record.ExpiresAt.Before(g.Record.LeaseUntil) {
				t.fatalf("expires at %v, before its lease ends at %v", g.Record.ExpiresAt, g.Record.LeaseUntil)
			}
			t.pass(st, c.ID, 2*short)
			t.reserve(st, c, store.InFlight)
			t.ok(st.Complete(t.Context(), g.Lease, store.Outcome{}), "Complete")
		}
	},
}, {
	Name: "lease's end does not delete the record",
	Rule: "Lease and retention are two durations: when the lease ends the record stays pending, with its meta, until " +
		"its retention is over.",
	run: func(t *trial) {
		st, c := t.open(), unleased("k")
		c.Lease = short
		before := t.reserve(st, c, store.Acquired).Record
		t.aged(st, c.ID, 2*short)
		t.unchanged(st, before)
	},
}}

// inheritsNothing claims the ID of an expired record. A Reserve of another ID may delete it before, so there is none.
// A Find may delete it too, and is made only if found is true.
func (t *trial) inheritsNothing(settled, found bool, meta []byte) {
	t.Helper()
	st, c := t.open(), unleased("k")
	watch := t.reserve(st, leased("watch"), store.Acquired).Lease.ID
	if !settled {
		c.Retention = short
	}
	old := t.reserve(st, c, store.Acquired).Record
	if settled {
		o := store.Outcome{Result: []byte("old"), Retention: short}
		t.ok(st.Complete(t.Context(), old.Lease(), o), "Complete")
	}
	t.pass(st, watch, 2*short)
	if found {
		t.absent(st, c.ID)
	}
	c.Fingerprint, c.Meta, c.Retention = payload("another"), meta, day
	r := t.reserve(st, c, store.Acquired).Record
	t.state(r, store.StatePending)
	t.bytes(r.Meta, meta, "the meta")
	t.bytes(r.Result, nil, "the result of a new record")
	if !r.CreatedAt.After(old.CreatedAt) {
		t.fatalf("the new record was created at %v, and the expired one at %v", r.CreatedAt, old.CreatedAt)
	}
	t.unchanged(st, r)
}
