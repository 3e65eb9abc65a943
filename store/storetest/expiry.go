package storetest

import "github.com/redo-go/redo/store"

var expiryCases = []Case{{
	Name: "expired record is absent at once",
	Rule: "A record whose retention is over is absent to Find and to Reserve, pending or settled, whether or not it " +
		"was purged; the next claim acquires the ID and inherits nothing, not even the payload.",
	run: func(t *trial) {
		st := t.open()
		pending := unleased("pending")
		pending.Retention = short
		t.reserve(st, pending, store.Acquired)
		settled := unleased("settled")
		t.settle(st, settled, store.Outcome{Result: []byte("old"), Retention: short})
		for _, c := range []store.Claim{pending, settled} {
			t.expires(st, c.ID)
			c.Fingerprint, c.Meta, c.Retention = payload("another"), []byte("meta of the second"), day
			r := t.reserve(st, c, store.Acquired).Record
			t.state(r, store.StatePending)
			t.bytes(r.Meta, c.Meta, "the meta")
			t.bytes(r.Result, nil, "the result of a new record")
			t.unchanged(st, r)
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
		st, c := t.open(), leased("k")
		c.Retention = short
		g := t.reserve(st, c, store.Acquired)
		if g.Record.ExpiresAt.Before(g.Record.LeaseUntil) {
			t.fatalf("expires at %v, before its lease ends at %v", g.Record.ExpiresAt, g.Record.LeaseUntil)
		}
		t.aged(st, c.ID, 2*short)
		t.reserve(st, c, store.InFlight)
		t.ok(st.Complete(t.Context(), g.Lease, store.Outcome{}), "Complete")
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
