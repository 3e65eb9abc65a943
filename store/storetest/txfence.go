package storetest

import (
	"context"
	"fmt"

	"github.com/redo-go/redo/store"
)

var txFenceCases = []Case{{
	Name: "fence grows over transactions",
	Rule: "The fence of an ID grows with every owner, by Reserve and by Begin. A rollback does not free its fence: " +
		"if the next owner got the same one, its record would confirm a commit whose response was lost.",
	run: func(t *trial) {
		st := t.openTx()
		var last uint64
		grown := func(g store.Grant) store.Lease {
			t.Helper()
			if g.Lease.Fence <= last {
				t.fatalf("the fence went from %d to %d", last, g.Lease.Fence)
			}
			last = g.Lease.Fence
			return g.Lease
		}
		rolledBack := func(want store.Verdict) {
			t.Helper()
			tx, g := t.begin(st, unleased("k"), want)
			grown(g)
			t.ok(tx.Rollback(t.Context()), "Rollback")
		}
		for range 2 {
			rolledBack(store.Acquired)
			rolledBack(store.Acquired)
			l := grown(t.reserve(st, leased("k"), store.Acquired))
			t.ok(st.Release(t.patient(), l), "Release")
			rolledBack(store.Acquired)
			grown(t.reserve(st, unleased("k"), store.Acquired))
			rolledBack(store.TakenOver)
			grown(t.reserve(st, unleased("k"), store.TakenOver))
			rolledBack(store.TakenOver)
			tx, g := t.begin(st, unleased("k"), store.TakenOver)
			grown(g)
			t.ok(tx.Commit(t.Context(), store.Outcome{Retention: short}), "Commit")
			t.expires(st, g.Lease.ID)
		}
	},
}, {
	Name: "lease of a rolled back transaction owns nothing",
	Rule: "The grant of a transaction that was rolled back is lost: it moves no record on that was reserved after " +
		"it, and makes none.",
	run: func(t *trial) {
		st := t.openTx()
		tx, g := t.begin(st, unleased("k"), store.Acquired)
		t.ok(tx.Rollback(t.Context()), "Rollback")
		lost := func() {
			t.Helper()
			t.is(st.Extend(t.patient(), g.Lease, long, nil), store.ErrLost, "Extend")
			t.is(st.Complete(t.patient(), g.Lease, store.Outcome{}), store.ErrLost, "Complete")
			t.is(st.Release(t.patient(), g.Lease), store.ErrLost, "Release")
		}
		lost()
		t.absent(st, g.Lease.ID)
		next := t.reserve(st, unleased("k"), store.Acquired)
		lost()
		t.unchanged(st, next.Record)
	},
}, {
	Name: "stale owner cannot move on what a transaction settled",
	Rule: "An owner whose record was taken over by a transaction that has committed gets ErrLost and changes " +
		"nothing, or the work would be done twice and the second result kept.",
	run: func(t *trial) {
		st := t.openTx()
		for _, way := range settling {
			stale := t.reserve(st, unleased(way.name), store.Acquired).Lease
			tx, g := t.begin(st, unleased(way.name), store.TakenOver)
			o := store.Outcome{Result: []byte("new")}
			t.ok(way.end(tx, t.Context(), o), way.name)
			before := t.settled(st, g, o)
			t.is(st.Complete(t.patient(), stale, store.Outcome{Result: []byte("stale")}),
				store.ErrLost, "Complete by the stale owner")
			t.is(st.Extend(t.patient(), stale, long, []byte("meta")), store.ErrLost, "Extend by the stale owner")
			t.is(st.Release(t.patient(), stale), store.ErrLost, "Release by the stale owner")
			t.unchanged(st, before)
		}
	},
}, {
	Name: "owner who completes while a transaction holds its record gets one answer",
	Rule: "The end of the transaction decides whether the earlier owner has lost its record: its Complete is ErrLost " +
		"after a commit, and succeeds after a rollback. Only one of the two outcomes is kept.",
	run: func(t *trial) {
		st := t.openTx()
		for i := range 8 {
			c := unleased(fmt.Sprintf("k%d", i))
			stale := t.reserve(st, c, store.Acquired).Lease
			tx, g := t.begin(st, c, store.TakenOver)
			t.write(tx, c.ID.Key)
			result := t.start("Complete", func(ctx context.Context) error {
				return st.Complete(ctx, stale, store.Outcome{Result: []byte("stale")})
			})
			if i%2 == 0 {
				t.ok(tx.Commit(t.Context(), store.Outcome{Result: []byte("new")}), "Commit")
				t.is(result(), store.ErrLost, "Complete beside a transaction that commits")
				t.settled(st, g, store.Outcome{Result: []byte("new")})
				t.effects(st, c.ID.Key, 1)
			} else {
				t.ok(tx.Rollback(t.Context()), "Rollback")
				t.ok(result(), "Complete beside a transaction that is rolled back")
				t.settled(st, store.Grant{Lease: stale}, store.Outcome{Result: []byte("stale")})
				t.effects(st, c.ID.Key, 0)
			}
		}
	},
}}
