package storetest

import "github.com/redo-go/redo/store"

var releaseCases = []Case{{
	Name: "release makes room",
	Rule: "Release removes a pending record, so that the next claim acquires the ID anew, with another payload if it " +
		"likes, and inherits nothing.",
	run: func(t *trial) {
		for _, claim := range []func(string) store.Claim{leased, unleased} {
			st, c := t.open(), claim("k")
			t.ok(st.Release(t.Context(), t.reserve(st, c, store.Acquired).Lease), "Release")
			t.absent(st, c.ID)
			c.Meta, c.Fingerprint = []byte("meta of the second"), payload("another")
			t.bytes(t.reserve(st, c, store.Acquired).Record.Meta, c.Meta, "the meta")
		}
	},
}, {
	Name: "stale owner cannot release",
	Rule: "Release compares and sets on the fence: an owner whose record was taken over would otherwise let a third " +
		"one run beside the second.",
	run: func(t *trial) {
		st := t.open()
		t.takenOver(st, func(stale store.Lease, g store.Grant) {
			t.is(st.Release(t.Context(), stale), store.ErrLost, "Release by the stale owner")
			t.unchanged(st, g.Record)
		})
	},
}, {
	Name: "second release is lost",
	Rule: "What was released is gone; releasing it again is ErrLost and can't hit the next owner.",
	run: func(t *trial) {
		st := t.open()
		l := t.reserve(st, leased("k"), store.Acquired).Lease
		t.ok(st.Release(t.Context(), l), "Release")
		t.is(st.Release(t.Context(), l), store.ErrLost, "the second Release")
		g := t.reserve(st, leased("k"), store.Acquired)
		t.is(st.Release(t.Context(), l), store.ErrLost, "the third Release")
		t.unchanged(st, g.Record)
	},
}, {
	Name: "settled record cannot be released",
	Rule: "Release never removes a settled record: a late clean-up would let finished work run again.",
	run: func(t *trial) {
		st := t.open()
		for key, failed := range map[string]bool{"complete": false, "failed": true} {
			l := t.settle(st, leased(key), store.Outcome{Failed: failed, Result: []byte("result")})
			before := t.find(st, l.ID)
			t.is(st.Release(t.Context(), l), store.ErrLost, "Release of a settled record")
			t.unchanged(st, before)
		}
	},
}}
