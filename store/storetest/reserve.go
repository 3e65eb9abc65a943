package storetest

import (
	"fmt"
	"time"

	"github.com/redo-go/redo/store"
)

var reserveCases = []Case{{
	Name: "absent id is acquired",
	Rule: "A claim on an ID without a record makes a pending one with the claim's values. The lease and the record " +
		"have the same fence, and lease and retention are two durations.",
	run: func(t *trial) {
		st, c := t.open(), leased("k")
		t.absent(st, c.ID)
		start := time.Now()
		g := t.reserve(st, c, store.Acquired)
		call := time.Since(start)

		if g.Lease != (store.Lease{ID: c.ID, Fence: g.Record.Fence}) || g.Record.ID != c.ID {
			t.fatalf("the lease is %+v and the record is %v under fence %d, want %v and one fence",
				g.Lease, g.Record.ID, g.Record.Fence, c.ID)
		}
		if g.Record.Fingerprint != c.Fingerprint {
			t.fatalf("the fingerprint is %v, want %v", g.Record.Fingerprint, c.Fingerprint)
		}
		t.state(g.Record, store.StatePending)
		t.owned(g.Record, c.Owner)
		t.bytes(g.Record.Meta, c.Meta, "the meta")
		t.bytes(g.Record.Result, nil, "the result of a pending record")
		t.span(g.Record.LeaseUntil.Sub(g.Record.CreatedAt), c.Lease, call, "creation and the lease's end")
		t.span(g.Record.ExpiresAt.Sub(g.Record.CreatedAt), c.Retention, call, "creation and expiry")
		t.unchanged(st, g.Record)
	},
}, {
	Name: "live lease excludes",
	Rule: "While a lease is live no other claim acquires the ID. A second claim, with or without a lease, is in " +
		"flight, gets no lease and changes nothing.",
	run: func(t *trial) {
		st := t.open()
		first := t.reserve(st, leased("k"), store.Acquired)
		for _, c := range []store.Claim{leased("k"), unleased("k")} {
			c.Meta, c.Lease, c.Retention = []byte("meta of the second"), 2*c.Lease, 3*day
			g := t.reserve(st, c, store.InFlight)
			if g.Lease != (store.Lease{}) {
				t.fatalf("a claim that is in flight got the lease %+v", g.Lease)
			}
			if g.Record.Fence != first.Lease.Fence || g.Record.LeaseLeft() == 0 {
				t.fatalf("the record is under fence %d with %v left, want the owner's fence %d and its lease live",
					g.Record.Fence, g.Record.LeaseLeft(), first.Lease.Fence)
			}
			t.state(g.Record, store.StatePending)
			t.unchanged(st, first.Record)
		}
	},
}, {
	Name: "lazy claim is seen at once",
	Rule: "Lazy defers durability only: later calls on the same store see the claim, and its lease excludes and settles " +
		"like any other.",
	run: func(t *trial) {
		st := t.open()
		for round := range rounds {
			c := leased(fmt.Sprintf("lazy %d", round))
			c.Lazy = true
			g := t.reserve(st, c, store.Acquired)
			t.reserve(st, c, store.InFlight)
			t.reserve(st, leased(c.ID.Key), store.InFlight)
			t.unchanged(st, g.Record)
			t.ok(st.Complete(t.Context(), g.Lease, store.Outcome{Result: []byte("result")}), "Complete")
			t.bytes(t.reserve(st, c, store.Complete).Record.Result, []byte("result"), "the result that Reserve returns")
		}
	},
}, {
	Name: "claim without a lease excludes nobody",
	Rule: "Client operations claim without a lease, because the server excludes: the next claim takes the record " +
		"over immediately, any number of times.",
	run: func(t *trial) {
		st := t.open()
		g := t.reserve(st, unleased("k"), store.Acquired)
		if !g.Record.LeaseUntil.IsZero() {
			t.fatalf("a claim without a lease has a lease until %v", g.Record.LeaseUntil)
		}
		for range 3 {
			next := t.reserve(st, unleased("k"), store.TakenOver)
			if next.Lease != next.Record.Lease() {
				t.fatalf("the lease is %+v, and the record is under %+v", next.Lease, next.Record.Lease())
			}
		}
	},
}, {
	Name: "take-over with a lease excludes from then on",
	Rule: "A claim that takes a record over gets the lease that it asked for.",
	run: func(t *trial) {
		st := t.open()
		t.reserve(st, unleased("k"), store.Acquired)
		c := leased("k")
		start := time.Now()
		g := t.reserve(st, c, store.TakenOver)
		t.span(g.Record.LeaseUntil.Sub(g.Record.ReadAt), c.Lease, time.Since(start),
			"the take-over and its lease's end")
		if got := t.reserve(st, unleased("k"), store.InFlight).Record.Fence; got != g.Lease.Fence {
			t.fatalf("the claim in flight is shown fence %d, want %d", got, g.Lease.Fence)
		}
	},
}, {
	Name: "take-over keeps the first owner's meta and creation time",
	Rule: "The new owner reads the first owner's progress from the meta, and the operation's age from the creation " +
		"time. The new claim's own meta is not written.",
	run: func(t *trial) {
		st := t.open()
		first := t.reserve(st, unleased("k"), store.Acquired).Record
		t.aged(st, first.ID, short)
		c := unleased("k")
		c.Meta = []byte("meta of the second")
		g := t.reserve(st, c, store.TakenOver)
		for _, r := range []store.Record{g.Record, t.find(st, c.ID)} {
			t.bytes(r.Meta, first.Meta, "the meta after a take-over")
			if !r.CreatedAt.Equal(first.CreatedAt) {
				t.fatalf("created at %v, want the first owner's %v", r.CreatedAt, first.CreatedAt)
			}
		}
	},
}, {
	Name: "take-over counts retention anew",
	Rule: "A record lives for the retention of the claim that reserved it last, counted from that Reserve.",
	run: func(t *trial) {
		st := t.open()
		t.reserve(st, unleased("k"), store.Acquired)
		for _, retention := range []time.Duration{3 * day, long} {
			c := unleased("k")
			c.Retention = retention
			start := time.Now()
			r := t.reserve(st, c, store.TakenOver).Record
			t.span(r.ExpiresAt.Sub(r.ReadAt), c.Retention, time.Since(start), "the take-over and expiry")
			t.unchanged(st, r)
		}
	},
}, {
	Name: "ended lease is taken over",
	Rule: "The record of a dead owner is pending work whose effect is unknown. The next claim takes it over, and its " +
		"verdict is TakenOver: Acquired would hide that the work may have been done.",
	run: func(t *trial) {
		st, c := t.open(), unleased("k")
		c.Lease = short
		first := t.reserve(st, c, store.Acquired)
		t.leaseEnds(st, c.ID)
		g := t.reserve(st, leased("k"), store.TakenOver)
		if g.Lease.Fence <= first.Lease.Fence {
			t.fatalf("the fence went from %d to %d", first.Lease.Fence, g.Lease.Fence)
		}
		t.reserve(st, leased("k"), store.InFlight)
	},
}, {
	Name: "settled record answers with its result",
	Rule: "A claim on a settled record is Complete or Failed, and gets result and meta in the same call. It gets no " +
		"lease and changes nothing.",
	run: func(t *trial) {
		st := t.open()
		for _, want := range []struct {
			verdict store.Verdict
			state   store.State
		}{{store.Complete, store.StateComplete}, {store.Failed, store.StateFailed}} {
			c := leased(want.verdict.String())
			t.settle(st, c, store.Outcome{Failed: want.verdict == store.Failed, Result: []byte("result")})
			before := t.find(st, c.ID)
			again := c
			again.Meta, again.Lease, again.Retention = []byte("meta of the second"), 2*long, 3*day
			g := t.reserve(st, again, want.verdict)
			if g.Lease != (store.Lease{}) {
				t.fatalf("a claim on a settled record got the lease %+v", g.Lease)
			}
			t.state(g.Record, want.state)
			t.bytes(g.Record.Result, []byte("result"), "the result")
			t.bytes(g.Record.Meta, c.Meta, "the meta")
			t.unchanged(st, before)
		}
	},
}}
