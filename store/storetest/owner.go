package storetest

import (
	"fmt"

	"github.com/redo-go/redo/store"
)

var ownerCases = []Case{{
	Name: "pending record keeps its claim's owner",
	Rule: "The owner is opaque bytes. The record shows it whole as long as it is pending, to Find and to Reserve, " +
		"and over Extend, so that a claim whose response was lost is recognized.",
	run: func(t *trial) {
		st := t.open()
		for i, owner := range []string{
			"", "o", string(everyByte()[:store.MaxOwner]), string(everyByte()[256-store.MaxOwner:]),
		} {
			c := leased(fmt.Sprint(i))
			c.Owner = owner
			g := t.reserve(st, c, store.Acquired)
			t.owned(g.Record, owner)
			t.owned(t.find(st, c.ID), owner)
			t.owned(t.reserve(st, leased(fmt.Sprint(i)), store.InFlight).Record, owner)
			t.ok(st.Extend(t.Context(), g.Lease, 2*long, []byte("progress")), "Extend")
			t.owned(t.find(st, c.ID), owner)
			t.ok(st.Extend(t.Context(), g.Lease, 0, nil), "Extend by zero")
			t.owned(t.find(st, c.ID), owner)
		}
	},
}, {
	Name: "take-over replaces the owner",
	Rule: "The record shows the owner of the claim that owns it now, also if that claim has none. The earlier owner " +
		"no longer recognizes the record as its own.",
	run: func(t *trial) {
		st := t.open()
		t.reserve(st, unleased("k"), store.Acquired)
		for _, owner := range []string{"second", "", "fourth"} {
			c := unleased("k")
			c.Owner = owner
			t.owned(t.reserve(st, c, store.TakenOver).Record, owner)
			t.owned(t.find(st, c.ID), owner)
		}
		other := unleased("k")
		other.Fingerprint, other.Owner = payload("another"), "mismatch"
		t.owned(t.reserve(st, other, store.Mismatch).Record, "fourth")
		t.owned(t.find(st, other.ID), "fourth")
	},
}, {
	Name: "settled record has no owner",
	Rule: "The owner identifies a claim in progress. A settled record has none: its fence shows whose outcome it " +
		"holds.",
	run: func(t *trial) {
		st := t.open()
		for _, want := range []store.Verdict{store.Complete, store.Failed} {
			c := leased(want.String())
			t.settle(st, c, store.Outcome{Failed: want == store.Failed})
			t.owned(t.find(st, c.ID), "")
			t.owned(t.reserve(st, c, want).Record, "")
		}
	},
}, {
	Name: "claim whose response was lost is found by its owner",
	Rule: "Find and Held return the grant that Reserve made, with its verdict, and nothing to any other claim. " +
		"Without that a lost response would block the ID until the lease ends.",
	run: func(t *trial) {
		st := t.open()
		forever := leased("lease forever")
		forever.Retention = store.Forever
		for _, c := range []store.Claim{leased("lease"), unleased("no lease"), forever} {
			first := t.reserve(st, c, store.Acquired)
			t.holds(st, c, first)
			t.ok(st.Extend(t.Context(), first.Lease, 0, nil), "Extend by zero")
			t.pass(st, c.ID, short)
			next := c
			next.Owner = "next"
			second := t.reserve(st, next, store.TakenOver)
			t.holds(st, next, second)
			t.stranger(st, c)
			t.ok(st.Complete(t.Context(), second.Lease, store.Outcome{}), "Complete")
			t.stranger(st, next)
		}
	},
}}

// holds checks that the claim recognizes the record as its own, and with the grant's verdict and lease.
func (t *trial) holds(st store.Store, c store.Claim, want store.Grant) {
	t.Helper()
	g, ok := store.Held(t.find(st, c.ID), c)
	if !ok || g.Verdict != want.Verdict || g.Lease != want.Lease {
		t.fatalf("the owner of %v holds (%t) the lease %+v, %q; want %+v, %q",
			c.ID, ok, g.Lease, g.Verdict, want.Lease, want.Verdict)
	}
	other := c
	other.Owner = "stranger"
	t.stranger(st, other)
}

// stranger checks that the claim does not recognize the record as its own.
func (t *trial) stranger(st store.Store, c store.Claim) {
	t.Helper()
	if g, ok := store.Held(t.find(st, c.ID), c); ok {
		t.fatalf("a claim by %q holds the record of %v, which is not its own: %+v", c.Owner, c.ID, g.Lease)
	}
}

func (t *trial) owned(r store.Record, want string) {
	t.Helper()
	if r.Owner != want {
		t.fatalf("the owner of the %s record of %v is %q, want %q", r.State, r.ID, r.Owner, want)
	}
}
