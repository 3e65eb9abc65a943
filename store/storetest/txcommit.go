package storetest

import (
	"bytes"
	"fmt"

	"github.com/redo-go/redo/store"
)

var txCommitCases = []Case{{
	Name: "commit makes record and effect visible together",
	Rule: "Record and effect are one transaction: no caller sees either before the commit, and every caller sees " +
		"both after it.",
	run: func(t *trial) {
		st, c := t.openTx(), unleased("k")
		tx, g := t.begin(st, c, store.Acquired)
		t.write(tx, "k")
		t.absent(st, c.ID)
		t.effects(st, "k", 0)
		o := store.Outcome{Result: []byte("result")}
		t.ok(tx.Commit(t.Context(), o), "Commit")
		t.effects(st, "k", 1)
		t.unchanged(st, t.settled(st, g, o))
		t.bytes(t.denied(st, c, store.Complete).Result, o.Result, "the result that Begin returns")
	},
}, {
	Name: "failed outcome commits with its effect",
	Rule: "Commit settles the record with its outcome and keeps the effect, also of a failed outcome. Discard undoes " +
		"the effect.",
	run: func(t *trial) {
		st, c := t.openTx(), unleased("k")
		tx, g := t.begin(st, c, store.Acquired)
		t.write(tx, "k")
		o := store.Outcome{Failed: true, Result: []byte("refused")}
		t.ok(tx.Commit(t.Context(), o), "Commit")
		t.settled(st, g, o)
		t.effects(st, "k", 1)
		t.denied(st, c, store.Failed)
	},
}, {
	Name: "rollback leaves neither record nor effect",
	Rule: "After a rollback there is neither record nor effect: the ID can be acquired immediately, also with " +
		"another payload.",
	run: func(t *trial) {
		st, c := t.openTx(), unleased("k")
		for _, body := range []string{"first", "second"} {
			c.Fingerprint = payload(body)
			tx, _ := t.begin(st, c, store.Acquired)
			t.write(tx, "k")
			t.ok(tx.Rollback(t.Context()), "Rollback")
			t.absent(st, c.ID)
			t.effects(st, "k", 0)
		}
		t.reserve(st, unleased("k"), store.Acquired)
	},
}, {
	Name: "discard keeps the record without the effect",
	Rule: "Discard undoes the effect of refused work, and keeps the refusal as a settled record.",
	run: func(t *trial) {
		st := t.openTx()
		for key, o := range map[string]store.Outcome{
			"failed":   {Failed: true, Result: []byte("refused")},
			"complete": {Result: []byte("nothing to do")},
		} {
			tx, g := t.begin(st, unleased(key), store.Acquired)
			t.write(tx, key)
			t.absent(st, g.Lease.ID)
			t.ok(tx.Discard(t.Context(), o), "Discard")
			t.settled(st, g, o)
			t.effects(st, key, 0)
		}
		t.denied(st, unleased("failed"), store.Failed)
		t.denied(st, unleased("complete"), store.Complete)
	},
}, {
	Name: "discard works after a failed statement",
	Rule: "A refusal is often a failed statement. Discard keeps the record also in engines where such a statement " +
		"spoils the transaction.",
	run: func(t *trial) {
		st := t.openTx()
		tx, g := t.begin(st, unleased("k"), store.Acquired)
		t.write(tx, "k")
		t.failStatement(tx)
		o := store.Outcome{Failed: true, Result: []byte("refused")}
		t.ok(tx.Discard(t.Context(), o), "Discard after a failed statement")
		t.settled(st, g, o)
		t.effects(st, "k", 0)
	},
}, {
	Name: "commit after a failed statement does all or nothing",
	Rule: "If a failed statement spoils the transaction, its commit is an error and does nothing. Otherwise the " +
		"commit keeps the rest. A commit that returns nil has kept the record and all writes.",
	run: func(t *trial) {
		st := t.openTx()
		tx, g := t.begin(st, unleased("k"), store.Acquired)
		t.write(tx, "k")
		t.failStatement(tx)
		o := store.Outcome{Result: []byte("result")}
		if err := tx.Commit(t.Context(), o); err != nil {
			t.absent(st, g.Lease.ID)
			t.effects(st, "k", 0)
			t.begin(st, unleased("k"), store.Acquired)
			return
		}
		t.settled(st, g, o)
		t.effects(st, "k", 1)
	},
}, {
	Name: "result of a transaction comes back as it went in",
	Rule: "The result is opaque to Commit and Discard as to Complete: nil and empty are different, any bytes are " +
		"kept, and the caller may reuse its buffer.",
	run: func(t *trial) {
		st := t.openTx()
		for i, result := range [][]byte{nil, {}, {0}, everyByte(), bytes.Repeat(everyByte(), 256)} {
			for _, way := range settling {
				c := unleased(fmt.Sprintf("%s %d", way.name, i))
				tx, g := t.begin(st, c, store.Acquired)
				buffer := bytes.Clone(result)
				t.ok(way.end(tx, t.Context(), store.Outcome{Result: buffer}), way.name)
				clear(buffer)
				t.settled(st, g, store.Outcome{Result: result})
				t.bytes(t.denied(st, c, store.Complete).Result, result, "the result that Begin returns")
			}
		}
	},
}}
