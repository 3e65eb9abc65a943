package storetest

import (
	"time"

	"github.com/redo-go/redo/store"
)

var extendCases = []Case{{
	Name: "extend moves the lease's end",
	Rule: "Extend makes the lease end that long from now, whether that is later or earlier than before. It changes " +
		"nothing else: the record gets no younger.",
	run: func(t *trial) {
		st := t.open()
		want := t.reserve(st, leased("k"), store.Acquired).Record
		t.aged(st, want.ID, short)
		for _, d := range []time.Duration{3 * long, long} {
			start := time.Now()
			t.ok(st.Extend(t.Context(), want.Lease(), d, nil), "Extend")
			r := t.find(st, want.ID)
			if left := r.LeaseLeft(); left > d+precision || left < d-time.Since(start)-precision {
				t.fatalf("the lease has %v left, want %v", left, d)
			}
			want.LeaseUntil = r.LeaseUntil
			t.unchanged(st, want)
		}
		t.reserve(st, leased("k"), store.InFlight)
	},
}, {
	Name: "extend by zero gives the lease up",
	Rule: "An owner that can't go on gives the record up without waiting for its lease's end. The next claim takes " +
		"the pending record over, with its meta. Until then the owner can still complete it.",
	run: func(t *trial) {
		st := t.open()
		g := t.reserve(st, leased("k"), store.Acquired)
		t.ok(st.Extend(t.Context(), g.Lease, 0, nil), "Extend by zero")
		r := t.find(st, g.Lease.ID)
		t.state(r, store.StatePending)
		if r.LeaseLeft() != 0 {
			t.fatalf("the lease that was given up has %v left", r.LeaseLeft())
		}
		t.bytes(t.reserve(st, leased("k"), store.TakenOver).Record.Meta, g.Record.Meta, "the meta after the take-over")

		l := t.reserve(st, leased("other"), store.Acquired).Lease
		t.ok(st.Extend(t.Context(), l, 0, []byte("progress")), "Extend by zero")
		t.bytes(t.find(st, l.ID).Meta, []byte("progress"), "the meta that Extend by zero set")
		t.ok(st.Complete(t.Context(), l, store.Outcome{}), "Complete by the owner that gave its lease up")
	},
}, {
	Name: "extend revives an ended lease",
	Rule: "An owner that renewed its lease too late, and was not taken over, still owns the record.",
	run: func(t *trial) {
		st := t.open()
		l := t.reserve(st, unleased("k"), store.Acquired).Lease
		t.ok(st.Extend(t.Context(), l, long, nil), "Extend")
		t.reserve(st, leased("k"), store.InFlight)
	},
}, {
	Name: "extend replaces the meta only when given one",
	Rule: "Nil leaves the meta alone; anything else replaces it, an empty one too.",
	run: func(t *trial) {
		st := t.open()
		g := t.reserve(st, leased("k"), store.Acquired)
		for _, step := range []struct{ given, want []byte }{
			{nil, g.Record.Meta},
			{[]byte("progress"), []byte("progress")},
			{nil, []byte("progress")},
			{[]byte{}, []byte{}},
		} {
			t.ok(st.Extend(t.Context(), g.Lease, long, step.given), "Extend")
			t.bytes(t.find(st, g.Lease.ID).Meta, step.want, "the meta")
		}
	},
}, {
	Name: "extend moves the expiry to the lease's end at least",
	Rule: "A record never expires before its lease ends, also when the lease was extended past the retention.",
	run: func(t *trial) {
		st := t.open()
		l := t.reserve(st, leased("k"), store.Acquired).Lease
		t.ok(st.Extend(t.Context(), l, 3*day, nil), "Extend")
		r := t.find(st, l.ID)
		if r.LeaseLeft() <= 2*day {
			t.fatalf("the lease has %v left, want %v", r.LeaseLeft(), 3*day)
		}
		if r.ExpiresAt.Before(r.LeaseUntil) {
			t.fatalf("expires at %v, before its lease ends at %v", r.ExpiresAt, r.LeaseUntil)
		}
	},
}, {
	Name: "extend never brings the expiry nearer",
	Rule: "Extend is about the lease: an expiry that lies behind the lease's end stays where it is, and a record " +
		"that is kept forever gets none.",
	run: func(t *trial) {
		for _, retention := range []time.Duration{day, store.Forever} {
			st, c := t.open(), leased("k")
			c.Retention = retention
			g := t.reserve(st, c, store.Acquired)
			for _, d := range []time.Duration{2 * long, time.Minute, 0} {
				t.ok(st.Extend(t.Context(), g.Lease, d, nil), "Extend")
				if got := t.find(st, c.ID).ExpiresAt; !got.Equal(g.Record.ExpiresAt) {
					t.fatalf("expires at %v after Extend by %v, want %v", got, d, g.Record.ExpiresAt)
				}
			}
		}
	},
}, {
	Name: "stale owner cannot extend",
	Rule: "Extend compares and sets on the fence. An owner whose record was taken over gets ErrLost and must stop. " +
		"The new owner's lease and meta are unchanged.",
	run: func(t *trial) {
		st := t.open()
		t.takenOver(st, func(stale store.Lease, g store.Grant) {
			for _, d := range []time.Duration{3 * day, 0} {
				t.is(st.Extend(t.Context(), stale, d, []byte("stale")), store.ErrLost, "Extend by the stale owner")
				t.unchanged(st, g.Record)
			}
		})
	},
}, {
	Name: "settled record cannot be extended",
	Rule: "There is no lease on a settled record: Extend is ErrLost under the record's own fence too.",
	run: func(t *trial) {
		st := t.open()
		l := t.settle(st, leased("k"), store.Outcome{Result: []byte("result")})
		before := t.find(st, l.ID)
		t.is(st.Extend(t.Context(), l, 3*day, []byte("more")), store.ErrLost, "Extend of a settled record")
		t.unchanged(st, before)
	},
}}
