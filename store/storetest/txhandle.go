package storetest

import (
	"fmt"

	"github.com/redo-go/redo/store"
)

var txHandleCases = []Case{{
	Name: "transaction excludes other handles",
	Rule: "An open transaction holds its ID on the backend: a Begin through another handle, as from another process, " +
		"is in flight without a wait, and in flight or a mismatch with another payload.",
	run: func(t *trial) {
		one, two := t.txHandles()
		t.reserve(one, unleased("taken over"), store.Acquired)
		for key, verdict := range map[string]store.Verdict{"new": store.Acquired, "taken over": store.TakenOver} {
			tx, _ := t.begin(one, unleased(key), verdict)
			t.inFlight(two, unleased(key))
			other := unleased(key)
			other.Fingerprint = payload("another")
			t.held(two, other, store.InFlight, store.Mismatch)
			t.ok(tx.Rollback(t.Context()), "Rollback")
			tx, _ = t.begin(two, unleased(key), verdict)
			t.inFlight(one, unleased(key))
			t.ok(tx.Commit(t.Context(), store.Outcome{}), "Commit")
			t.denied(one, unleased(key), store.Complete)
		}
	},
}, {
	Name: "other handle sees what a transaction committed",
	Rule: "After Commit or Discard has returned, every handle sees the record, its fence, and the effect or its " +
		"absence.",
	run: func(t *trial) {
		one, two := t.txHandles()
		last := uint64(0)
		for i := range rounds {
			way := settling[i%2]
			key := fmt.Sprint(i)
			tx, g := t.begin(one, unleased(key), store.Acquired)
			t.write(tx, key)
			o := store.Outcome{Result: []byte("result")}
			t.ok(way.end(tx, t.Context(), o), way.name)
			t.settled(two, g, o)
			t.effects(two, key, 1-i%2)
			t.bytes(t.denied(two, unleased(key), store.Complete).Result, o.Result, "the result")

			tx, g = t.begin(two, unleased("k"), store.Acquired)
			if g.Lease.Fence <= last {
				t.fatalf("the fence went from %d to %d", last, g.Lease.Fence)
			}
			last = g.Lease.Fence
			t.ok(tx.Rollback(t.Context()), "Rollback")
			one, two = two, one
		}
	},
}, {
	Name: "one of 64 racers over two handles has the effect",
	Rule: "A transaction excludes on the backend and not only within a process.",
	run: func(t *trial) {
		one, two := t.txHandles()
		for round := range rounds {
			t.oneEffect(unleased(fmt.Sprintf("k%d", round)), one, two)
		}
	},
}}

func (t *trial) txHandles() (one, two store.TxStore[any]) {
	t.Helper()
	first, second := t.handles()
	return first.(store.TxStore[any]), second.(store.TxStore[any])
}

var txReopenCases = []Case{{
	Name: "transaction is durable by its commit",
	Rule: "A record and an effect that Commit or Discard has kept survive a restart. A rolled back transaction " +
		"leaves nothing.",
	run: func(t *trial) {
		st := t.durable().(store.TxStore[any])
		free := t.reserve(st, unleased("taken over"), store.Acquired).Record
		var before []store.Record
		for i, way := range settling {
			tx, g := t.begin(st, unleased(way.name), store.Acquired)
			t.write(tx, way.name)
			o := store.Outcome{Failed: i == 1, Result: []byte("result")}
			t.ok(way.end(tx, t.Context(), o), way.name)
			before = append(before, t.settled(st, g, o))
		}
		for key, verdict := range map[string]store.Verdict{"new": store.Acquired, "taken over": store.TakenOver} {
			tx, _ := t.begin(st, unleased(key), verdict)
			t.write(tx, key)
			t.ok(tx.Rollback(t.Context()), "Rollback")
		}
		st = t.reopen(st).(store.TxStore[any])
		for _, r := range append(before, free) {
			t.unchanged(st, r)
		}
		t.absent(st, unleased("new").ID)
		for key, want := range map[string]int{"Commit": 1, "Discard": 0, "new": 0, "taken over": 0} {
			t.effects(st, key, want)
		}
		t.denied(st, unleased("Commit"), store.Complete)
		t.denied(st, unleased("Discard"), store.Failed)
		tx, _ := t.begin(st, unleased("new"), store.Acquired)
		t.ok(tx.Rollback(t.Context()), "Rollback")
		t.begin(st, unleased("taken over"), store.TakenOver)
	},
}, {
	Name: "fence grows over a restart",
	Rule: "A rollback does not free its fence, also over a restart without any commit since: a fence only ever " +
		"grows.",
	run: func(t *trial) {
		st := t.durable().(store.TxStore[any])
		t.reserve(st, unleased("taken over"), store.Acquired)
		var last uint64
		grown := func(g store.Grant) {
			t.Helper()
			if g.Lease.Fence <= last {
				t.fatalf("the fence went from %d to %d", last, g.Lease.Fence)
			}
			last = g.Lease.Fence
		}
		for _, next := range []func(key string, want store.Verdict){
			func(key string, want store.Verdict) {
				tx, g := t.begin(st, unleased(key), want)
				grown(g)
				t.ok(tx.Rollback(t.Context()), "Rollback")
			},
			func(key string, want store.Verdict) { grown(t.reserve(st, unleased(key), want)) },
		} {
			for range 3 {
				for key, verdict := range map[string]store.Verdict{
					"new": store.Acquired, "taken over": store.TakenOver,
				} {
					tx, g := t.begin(st, unleased(key), verdict)
					grown(g)
					t.ok(tx.Rollback(t.Context()), "Rollback")
				}
			}
			st = t.reopen(st).(store.TxStore[any])
			next("new", store.Acquired)
		}
	},
}}
