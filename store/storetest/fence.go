package storetest

import (
	"fmt"

	"github.com/redo-go/redo/store"
)

// Each of the cases ends one owner's time in another way and looks at the fence of the next.
var fenceCases = []Case{{
	Name: "fence grows over take-over",
	Rule: "A fence only grows for an ID, so that a fenced system downstream can refuse the earlier owner.",
	run: func(t *trial) {
		t.fenceGrows(store.TakenOver, unleased("k"), func(store.Store, store.Lease) {})
	},
}, {
	Name: "fence grows over release",
	Rule: "A release removes the record and keeps its fence used. If the count started again, the earlier owner's " +
		"lease would fit the next owner's record.",
	run: func(t *trial) {
		t.fenceGrows(store.Acquired, leased("k"), func(st store.Store, l store.Lease) {
			t.ok(st.Release(t.Context(), l), "Release")
		})
	},
}, {
	Name: "fence grows over expiry",
	Rule: "An expired record is absent, and its fence is used up all the same.",
	run: func(t *trial) {
		c := unleased("k")
		c.Retention = short
		t.fenceGrows(store.Acquired, c, func(st store.Store, l store.Lease) { t.expires(st, l.ID) })
	},
}, {
	Name: "fence grows over purge",
	Rule: "Deleting the expired record does not free its fence.",
	run: func(t *trial) {
		c := unleased("k")
		c.Retention = short
		t.fenceGrows(store.Acquired, c, func(st store.Store, l store.Lease) {
			// Not searched by Find, since a store may let Find delete expired records.
			watch := t.reserve(st, leased(fmt.Sprintf("after %d", l.Fence)), store.Acquired).Lease
			t.aged(st, watch.ID, short)
			_, err := st.Purge(t.Context(), 10)
			t.ok(err, "Purge")
		})
	},
}, {
	Name: "fence grows over forget",
	Rule: "Forgetting a settled record does not free its fence.",
	run: func(t *trial) {
		t.fenceGrows(store.Acquired, leased("k"), func(st store.Store, l store.Lease) {
			f, ok := st.(store.Forgetter)
			if !ok {
				t.Skipf("the store is no Forgetter")
			}
			t.ok(st.Complete(t.Context(), l, store.Outcome{}), "Complete")
			t.ok(f.Forget(t.Context(), l), "Forget")
		})
	},
}}

// fenceGrows claims the ID some times; end makes room for the next claim, which gets the verdict.
func (t *trial) fenceGrows(next store.Verdict, c store.Claim, end func(store.Store, store.Lease)) {
	t.Helper()
	st := t.open()
	l := t.reserve(st, c, store.Acquired).Lease
	for range 3 {
		end(st, l)
		got := t.reserve(st, c, next).Lease
		if got.Fence <= l.Fence {
			t.fatalf("the fence went from %d to %d", l.Fence, got.Fence)
		}
		l = got
	}
}
