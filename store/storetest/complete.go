package storetest

import (
	"fmt"

	"github.com/redo-go/redo/store"
)

var completeCases = []Case{{
	Name: "stale owner cannot complete",
	Rule: "Complete compares and sets on the fence: an owner whose record was taken over gets ErrLost, writes " +
		"nothing, and the new owner's right is untouched.",
	run: func(t *trial) {
		st := t.open()
		t.takenOver(st, func(stale store.Lease, g store.Grant) {
			t.is(st.Complete(t.Context(), stale, store.Outcome{Result: []byte("stale")}),
				store.ErrLost, "Complete by the stale owner")
			t.unchanged(st, g.Record)
			t.ok(st.Complete(t.Context(), g.Lease, store.Outcome{Result: []byte("new")}), "Complete by the new owner")
			t.bytes(t.find(st, stale.ID).Result, []byte("new"), "the result")
		})
	},
}, {
	Name: "owner of a released id cannot complete its successor",
	Rule: "A released lease is lost for good, also if the ID was reserved again.",
	run: func(t *trial) {
		st := t.open()
		stale := t.reserve(st, leased("k"), store.Acquired).Lease
		t.ok(st.Release(t.Context(), stale), "Release")
		t.is(st.Complete(t.Context(), stale, store.Outcome{}), store.ErrLost, "Complete of a released record")
		t.absent(st, stale.ID)
		g := t.reserve(st, leased("k"), store.Acquired)
		t.is(st.Complete(t.Context(), stale, store.Outcome{}), store.ErrLost, "Complete after the ID was reserved anew")
		t.unchanged(st, g.Record)
	},
}, {
	Name: "complete succeeds after the lease's end",
	Rule: "An owner that overran its lease and was not taken over has done the work. Its result is kept, so that the " +
		"work is not done again.",
	run: func(t *trial) {
		st, c := t.open(), unleased("k")
		c.Lease = short
		l := t.reserve(st, c, store.Acquired).Lease
		t.leaseEnds(st, c.ID)
		t.ok(st.Complete(t.Context(), l, store.Outcome{Result: []byte("late")}), "Complete after the lease's end")
		t.bytes(t.reserve(st, c, store.Complete).Record.Result, []byte("late"), "the result")
	},
}, {
	Name: "complete needs no lease",
	Rule: "The owner of a claim without a lease completes it by its fence like any other.",
	run: func(t *trial) {
		st := t.open()
		t.settle(st, unleased("k"), store.Outcome{Result: []byte("result")})
		t.reserve(st, unleased("k"), store.Complete)
	},
}, {
	Name: "second complete is lost",
	Rule: "A settled record is final: completing it again, even under its own fence, is ErrLost and changes nothing.",
	run: func(t *trial) {
		st := t.open()
		l := t.settle(st, leased("k"), store.Outcome{Result: []byte("first")})
		before := t.find(st, l.ID)
		again := store.Outcome{Failed: true, Result: []byte("second"), Retention: store.Forever}
		t.is(st.Complete(t.Context(), l, again), store.ErrLost, "the second Complete")
		t.unchanged(st, before)
	},
}, {
	Name: "settled record has no lease",
	Rule: "A settled record excludes no claim: its lease has ended. Its fence stays, and shows the owner that the " +
		"result is its own.",
	run: func(t *trial) {
		st := t.open()
		l := t.settle(st, leased("k"), store.Outcome{})
		r := t.find(st, l.ID)
		if r.LeaseLeft() != 0 || r.Fence != l.Fence {
			t.fatalf("a lease of %v is left under fence %d, want none and fence %d", r.LeaseLeft(), r.Fence, l.Fence)
		}
	},
}, {
	Name: "lazy completion is seen at once",
	Rule: "Lazy defers durability only: later calls of Reserve and Find on the same store see the write.",
	run: func(t *trial) {
		st := t.open()
		for round := range rounds {
			c := leased(fmt.Sprintf("reserved again %d", round))
			t.settle(st, c, store.Outcome{Result: []byte("lazy"), Lazy: true})
			t.bytes(t.reserve(st, c, store.Complete).Record.Result, []byte("lazy"), "the result that Reserve returns")

			l := t.settle(st, leased(fmt.Sprintf("found %d", round)), store.Outcome{Failed: true, Lazy: true})
			t.state(t.find(st, l.ID), store.StateFailed)

			l = t.settle(st, leased(fmt.Sprintf("released %d", round)), store.Outcome{Lazy: true})
			t.is(st.Release(t.Context(), l), store.ErrLost, "Release of a completed record")
		}
	},
}, {
	Name: "unknown lease is lost",
	Rule: "A lease on an ID without a record, or with another ID's fence, owns nothing: Extend, Complete and Release " +
		"return ErrLost and make no record.",
	run: func(t *trial) {
		st := t.open()
		g := t.reserve(st, leased("k"), store.Acquired)
		l := store.Lease{ID: store.ID{Scope: "scope", Key: "never reserved"}, Fence: g.Lease.Fence}
		t.is(st.Extend(t.Context(), l, long, []byte("meta")), store.ErrLost, "Extend")
		t.is(st.Complete(t.Context(), l, store.Outcome{}), store.ErrLost, "Complete")
		t.is(st.Release(t.Context(), l), store.ErrLost, "Release")
		t.absent(st, l.ID)
		for _, fence := range []uint64{0, g.Lease.Fence - 1, g.Lease.Fence + 1, g.Lease.Fence ^ 1<<32} {
			l := store.Lease{ID: g.Lease.ID, Fence: fence}
			t.is(st.Extend(t.Context(), l, 3*day, []byte("meta")), store.ErrLost, "Extend")
			t.is(st.Complete(t.Context(), l, store.Outcome{}), store.ErrLost, "Complete")
			t.is(st.Release(t.Context(), l), store.ErrLost, "Release")
		}
		t.unchanged(st, g.Record)
	},
}}
