package storetest

import (
	"errors"
	"time"

	"github.com/redo-go/redo/store"
)

var txRetainCases = []Case{{
	Name: "retention is counted from begin",
	Rule: "An outcome without a retention keeps the expiry that the claim set at Begin, however long the transaction " +
		"takes. Forever has no expiry.",
	run: func(t *trial) {
		st := t.openTx()
		for _, way := range settling {
			for name, retention := range map[string]time.Duration{"a day": day, "for ever": store.Forever} {
				c := unleased(way.name + " " + name)
				c.Retention = retention
				start := time.Now()
				tx, g := t.begin(st, c, store.Acquired)
				if retention == store.Forever {
					if !g.Record.ExpiresAt.IsZero() {
						t.fatalf("the record expires at %v, want never", g.Record.ExpiresAt)
					}
				} else {
					t.span(g.Record.ExpiresAt.Sub(g.Record.CreatedAt), retention, time.Since(start),
						"creation and expiry")
				}
				<-time.After(2 * precision)
				t.ok(way.end(tx, t.Context(), store.Outcome{}), way.name)
				if got := t.find(st, c.ID).ExpiresAt; !got.Equal(g.Record.ExpiresAt) {
					t.fatalf("expires at %v, want %v", got, g.Record.ExpiresAt)
				}
			}
		}
	},
}, {
	Name: "transaction's outcome replaces the claim's retention",
	Rule: "An outcome with a retention makes the record live for that long from the commit on, longer or shorter " +
		"than the claim's retention, or forever.",
	run: func(t *trial) {
		st := t.openTx()
		for _, way := range settling {
			for name, retention := range map[string]time.Duration{"longer": 3 * day, "shorter": long} {
				tx, g := t.begin(st, unleased(way.name+" "+name), store.Acquired)
				<-time.After(2 * precision)
				start := time.Now()
				t.ok(way.end(tx, t.Context(), store.Outcome{Retention: retention}), way.name)
				r := t.find(st, g.Lease.ID)
				if left := r.ExpiresAt.Sub(r.ReadAt); left > retention+precision ||
					left < retention-time.Since(start)-precision {
					t.fatalf("%v are left, want %v", left, retention)
				}
			}
			tx, g := t.begin(st, unleased(way.name+" for ever"), store.Acquired)
			t.ok(way.end(tx, t.Context(), store.Outcome{Retention: store.Forever}), way.name)
			if at := t.find(st, g.Lease.ID).ExpiresAt; !at.IsZero() {
				t.fatalf("the record expires at %v, want never", at)
			}
		}
	},
}, {
	Name: "record that a transaction settled for a short time expires",
	Rule: "A record that a transaction has settled expires, is purged and is acquired again like any other.",
	run: func(t *trial) {
		st := t.openTx()
		watch := t.reserve(st, leased("watch"), store.Acquired).Lease
		tx, _ := t.begin(st, unleased("k"), store.Acquired)
		t.write(tx, "k")
		t.ok(tx.Commit(t.Context(), store.Outcome{Retention: short}), "Commit")
		t.pass(st, watch.ID, 2*short)
		n, err := st.Purge(t.Context(), 10)
		t.ok(err, "Purge")
		if n != 1 && !t.selfExpiring {
			t.fatalf("Purge deleted %d records, want the one that has expired", n)
		}
		t.effects(st, "k", 1)
		t.begin(st, unleased("k"), store.Acquired)
	},
}, {
	Name: "record that expires during its transaction is not settled",
	Rule: "A transaction that outlives its record has lost it: settling is ErrLost and does nothing. An effect " +
		"without a record would be made again.",
	run: func(t *trial) {
		st := t.openTx()
		watch := t.reserve(st, leased("watch"), store.Acquired).Lease
		for _, way := range settling {
			c := unleased(way.name)
			c.Retention = short
			tx, _ := t.begin(st, c, store.Acquired)
			t.write(tx, way.name)
			t.pass(st, watch.ID, 2*short)
			if err := way.end(tx, t.Context(), store.Outcome{Retention: day}); !errors.Is(err, store.ErrLost) {
				t.fatalf("%s of an expired record: error %v, want ErrLost", way.name, err)
			}
			t.absent(st, c.ID)
			t.effects(st, way.name, 0)
			again, _ := t.begin(st, c, store.Acquired)
			t.ok(again.Rollback(t.Context()), "Rollback")
		}
	},
}}
