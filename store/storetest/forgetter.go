package storetest

import "github.com/redo-go/redo/store"

var forgetterCases = []Case{{
	Name: "forget removes a settled record",
	Rule: "Forget removes a complete or failed record before it expires. The next claim acquires the ID.",
	run: func(t *trial) {
		st := t.open()
		for key, failed := range map[string]bool{"complete": false, "failed": true} {
			t.settle(st, leased(key), store.Outcome{Failed: failed, Retention: store.Forever})
			id := leased(key).ID
			t.ok(t.forgetter(st).Forget(t.Context(), t.find(st, id).Lease()), "Forget")
			t.absent(st, id)
			t.reserve(st, leased(key), store.Acquired)
		}
	},
}, {
	Name: "pending record cannot be forgotten",
	Rule: "Forget is for settled records: a pending record's effect is unknown, and its owner may be at work.",
	run: func(t *trial) {
		st := t.open()
		for _, c := range []store.Claim{leased("leased"), unleased("unleased")} {
			g := t.reserve(st, c, store.Acquired)
			t.is(t.forgetter(st).Forget(t.Context(), g.Lease), store.ErrLost, "Forget of a pending record")
			t.unchanged(st, g.Record)
		}
	},
}, {
	Name: "forget goes by the fence",
	Rule: "The operator forgets the record that was read. A newer record stays. An absent record is ErrLost, and an " +
		"expired one is absent.",
	run: func(t *trial) {
		st := t.open()
		seen := t.settle(st, leased("k"), store.Outcome{})
		t.ok(t.forgetter(st).Forget(t.Context(), seen), "Forget")
		t.is(t.forgetter(st).Forget(t.Context(), seen), store.ErrLost, "the second Forget")
		t.settle(st, leased("k"), store.Outcome{Result: []byte("new")})
		before := t.find(st, seen.ID)
		t.is(t.forgetter(st).Forget(t.Context(), seen), store.ErrLost, "Forget under an earlier fence")
		t.unchanged(st, before)
		expired := t.settle(st, leased("expired"), store.Outcome{Retention: short})
		t.pass(st, before.ID, 2*short)
		t.is(t.forgetter(st).Forget(t.Context(), expired), store.ErrLost, "Forget of an expired record")
	},
}}

func (t *trial) forgetter(st store.Store) store.Forgetter {
	t.Helper()
	f, ok := st.(store.Forgetter)
	if !ok {
		t.Skipf("the store is no Forgetter")
	}
	return f
}
