package storetest

import (
	"fmt"
	"time"

	"github.com/redo-go/redo/store"
)

var retainCases = []Case{{
	Name: "outcome's retention replaces the claim's",
	Rule: "An Outcome with a retention makes the record live for that long from then on, longer or shorter than the " +
		"claim's retention, complete or failed.",
	run: func(t *trial) {
		st := t.open()
		for i, step := range []struct {
			claimed, retention time.Duration
			failed             bool
		}{
			{day, 3 * day, false}, {day, long, false}, {store.Forever, long, false}, {day, 3 * day, true}, {day, long, true},
		} {
			c, retention := leased(fmt.Sprint(i)), step.retention
			c.Retention = step.claimed
			l := t.reserve(st, c, store.Acquired).Lease
			t.aged(st, l.ID, short) // the retention is not counted from the claim
			start := time.Now()
			t.ok(st.Complete(t.Context(), l, store.Outcome{Failed: step.failed, Retention: retention}), "Complete")
			r := t.find(st, l.ID)
			// Complete does not get the instant, so the record's age bounds it from both sides.
			if left := r.ExpiresAt.Sub(r.ReadAt); left > retention+precision ||
				left < retention-time.Since(start)-precision {
				t.fatalf("%v are left, want %v", left, retention)
			}
		}
	},
}, {
	Name: "outcome without a retention keeps the claim's expiry",
	Rule: "An Outcome whose retention is zero keeps the claim's expiry.",
	run: func(t *trial) {
		st := t.open()
		g := t.reserve(st, leased("k"), store.Acquired)
		t.ok(st.Complete(t.Context(), g.Lease, store.Outcome{}), "Complete")
		if got := t.find(st, g.Lease.ID).ExpiresAt; !got.Equal(g.Record.ExpiresAt) {
			t.fatalf("expires at %v, want %v", got, g.Record.ExpiresAt)
		}
	},
}, {
	Name: "record settled for a short time expires",
	Rule: "The outcome's retention replaces the claim's longer one.",
	run: func(t *trial) {
		st := t.open()
		l := t.settle(st, leased("k"), store.Outcome{Retention: short})
		t.expires(st, l.ID)
		t.reserve(st, leased("k"), store.Acquired)
	},
}, {
	Name: "forever never expires",
	Rule: "Forever, in a claim or in an outcome, keeps a record until it is released or forgotten: it has no expiry, " +
		"and Purge passes it by.",
	run: func(t *trial) {
		st := t.open()
		c := unleased("claimed")
		c.Retention = store.Forever
		t.reserve(st, c, store.Acquired)
		settled := t.settle(st, unleased("settled"), store.Outcome{Retention: store.Forever})
		t.aged(st, c.ID, short)
		_, err := st.Purge(t.Context(), 10)
		t.ok(err, "Purge")
		for _, id := range []store.ID{c.ID, settled.ID} {
			if at := t.find(st, id).ExpiresAt; !at.IsZero() {
				t.fatalf("the record of %v expires at %v, want never", id, at)
			}
		}
		t.reserve(st, c, store.TakenOver)
	},
}, {
	Name: "longest durations do not overflow",
	Rule: "A lease or a retention just below Forever, 292 years, ends after year 2262, beyond what 64 bits of " +
		"nanoseconds hold; a store that overflows would see the record as long expired.",
	run: func(t *trial) {
		st := t.open()
		c := unleased("k")
		c.Lease, c.Retention = store.Forever-1, store.Forever-1
		l := t.reserve(st, c, store.Acquired).Lease
		t.aged(st, c.ID, short)
		t.reserve(st, c, store.InFlight)
		t.ok(st.Extend(t.Context(), l, store.Forever-1, nil), "Extend")
		t.reserve(st, c, store.InFlight)
		t.ok(st.Complete(t.Context(), l, store.Outcome{Retention: store.Forever - 1}), "Complete")
		_, err := st.Purge(t.Context(), 10)
		t.ok(err, "Purge")
		t.reserve(st, c, store.Complete)
	},
}}
