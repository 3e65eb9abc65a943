package storetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/redo-go/redo/store"
)

var txHeldCases = []Case{{
	Name: "begin of a held id is in flight at once",
	Rule: "A Begin waits for no transaction of the same ID: it is in flight at once, and shows what is known of a record " +
		"that nobody can see, so that a caller's pool of connections can't fill with those who wait.",
	run: func(t *trial) {
		st := t.openTx()
		t.reserve(st, unleased("taken over"), store.Acquired)
		for key, verdict := range map[string]store.Verdict{"new": store.Acquired, "taken over": store.TakenOver} {
			tx, g := t.begin(st, unleased(key), verdict)
			t.write(tx, key)
			for range 3 {
				t.inFlight(st, unleased(key))
			}
			o := store.Outcome{Result: []byte("result")}
			t.ok(tx.Commit(t.Context(), o), "Commit")
			t.settled(st, g, o)
			t.effects(st, key, 1)
			t.denied(st, unleased(key), store.Complete)
		}
	},
}, {
	Name: "other payload on a held id is a mismatch at once",
	Rule: "The mismatch wins over in flight also while the record can't be seen yet: waiting for its owner would not help.",
	run: func(t *trial) {
		st := t.openTx()
		t.reserve(st, unleased("taken over"), store.Acquired)
		for key, verdict := range map[string]store.Verdict{"new": store.Acquired, "taken over": store.TakenOver} {
			tx, g := t.begin(st, unleased(key), verdict)
			other := unleased(key)
			other.Fingerprint = payload("another")
			if r := t.denied(st, other, store.Mismatch); r.ID != other.ID || r.State != store.StatePending {
				t.fatalf("the record is %s and of %v, want %s and %v", r.State, r.ID, store.StatePending, other.ID)
			}
			t.ok(tx.Commit(t.Context(), store.Outcome{}), "Commit")
			t.settled(st, g, store.Outcome{})
			t.denied(st, other, store.Mismatch)
		}
	},
}, {
	Name: "ended transaction holds nothing",
	Rule: "However a transaction ends, the ID is free for the next Begin by the time that the call has returned.",
	run: func(t *trial) {
		st := t.openTx()
		for range 3 {
			tx, _ := t.begin(st, unleased("k"), store.Acquired)
			t.inFlight(st, unleased("k"))
			t.ok(tx.Rollback(t.Context()), "Rollback")
		}
		for _, way := range settling {
			tx, _ := t.begin(st, unleased("k "+way.name), store.Acquired)
			t.ok(way.end(tx, t.Context(), store.Outcome{}), way.name)
			t.denied(st, unleased("k "+way.name), store.Complete)
		}
	},
}, {
	Name: "other ids are not blocked by an open transaction",
	Rule: "A transaction excludes its own ID and no other: another operation begins, commits, is reserved and completed " +
		"beside it.",
	run: func(t *trial) {
		if t.engine.singleWriter {
			t.Skipf("the engine has a single writer")
		}
		st := t.openTx()
		one, first := t.begin(st, unleased("one"), store.Acquired)
		two, second := t.begin(st, unleased("two"), store.Acquired)
		t.write(one, "one")
		t.write(two, "two")
		l := t.reserve(st, leased("three"), store.Acquired).Lease
		t.ok(st.Extend(t.patient(), l, 2*long, nil), "Extend of another record")
		t.ok(st.Complete(t.patient(), l, store.Outcome{}), "Complete of another record")
		t.ok(two.Commit(t.Context(), store.Outcome{}), "Commit of the later transaction")
		t.settled(st, second, store.Outcome{})
		t.absent(st, first.Lease.ID)
		t.effects(st, "one", 0)
		t.ok(one.Commit(t.Context(), store.Outcome{}), "Commit of the earlier transaction")
		t.settled(st, first, store.Outcome{})
		t.effects(st, "one", 1)
		t.effects(st, "two", 1)
	},
}, {
	Name: "begin of another id waits for the single writer",
	Rule: "Where one transaction can be open at a time a Begin of another ID waits for it, no longer than its context " +
		"lasts, and gets through when it is over.",
	run: func(t *trial) {
		if !t.engine.singleWriter {
			t.Skipf("the engine has many writers")
		}
		st := t.openTx()
		tx, first := t.begin(st, unleased("one"), store.Acquired)
		ctx, cancel := context.WithTimeout(t.Context(), short)
		defer cancel()
		late, g, err := st.Begin(ctx, unleased("two"))
		if late != nil {
			_ = late.Rollback(t.Context())
		}
		if late != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.fatalf("Begin of another ID: verdict %q, error %v, no transaction: %t; want %v and none", g.Verdict, err, late == nil, context.DeadlineExceeded)
		}
		var second store.Grant
		result := t.start("Begin of another ID", func(ctx context.Context) error {
			next, g, err := st.Begin(ctx, unleased("two"))
			if err != nil || next == nil {
				return errors.Join(err, errors.New("no transaction"))
			}
			second = g
			return next.Commit(ctx, store.Outcome{})
		})
		t.absent(st, unleased("two").ID)
		t.ok(tx.Commit(t.Context(), store.Outcome{}), "Commit")
		t.ok(result(), "Begin and Commit of another ID after the transaction")
		t.settled(st, first, store.Outcome{})
		t.settled(st, second, store.Outcome{})
	},
}, {
	Name: "reserve never owns a held id",
	Rule: "The open transaction stands in the lease's place: a Reserve of its ID is in flight, or waits and is told what " +
		"was committed. Only after a rollback does it get the ID.",
	run: func(t *trial) {
		st := t.openTx()
		for i := range 8 {
			c := leased(fmt.Sprintf("k%d", i))
			standing := i%4 < 2
			if standing {
				t.reserve(st, unleased(c.ID.Key), store.Acquired)
			}
			tx, own := t.begin(st, unleased(c.ID.Key), map[bool]store.Verdict{true: store.TakenOver, false: store.Acquired}[standing])
			t.write(tx, c.ID.Key)
			var got store.Grant
			result := t.start("Reserve", func(ctx context.Context) (err error) {
				got, err = st.Reserve(ctx, c)
				return err
			})
			commits := i%2 == 0
			if commits {
				t.ok(tx.Commit(t.Context(), store.Outcome{}), "Commit")
			} else {
				t.ok(tx.Rollback(t.Context()), "Rollback")
			}
			t.ok(result(), "Reserve")
			switch {
			case got.Verdict == store.InFlight:
			case commits && got.Verdict == store.Complete:
			case !commits && standing && got.Verdict == store.TakenOver:
			case !commits && !standing && got.Verdict == store.Acquired:
			default:
				t.fatalf("Reserve beside a transaction (that commits: %t, over a pending record: %t): %q", commits, standing, got.Verdict)
			}
			if commits {
				t.settled(st, own, store.Outcome{})
				t.effects(st, c.ID.Key, 1)
			}
		}
	},
}, {
	Name: "readers see what is committed beside an open transaction",
	Rule: "Find and Pending wait for no transaction and show nothing of it: a record that is taken over stands as it was, " +
		"and one that is new is not there.",
	run: func(t *trial) {
		st := t.openTx()
		standing := t.reserve(st, unleased("standing"), store.Acquired).Record
		tx, g := t.begin(st, unleased("new"), store.Acquired)
		t.write(tx, "new")
		t.seen(st, standing, g)
		t.ok(tx.Rollback(t.Context()), "Rollback")

		tx, _ = t.begin(st, unleased("standing"), store.TakenOver)
		t.seen(st, standing, g)
		t.ok(tx.Commit(t.Context(), store.Outcome{}), "Commit")
		t.state(t.find(st, standing.ID), store.StateComplete)
	},
}, {
	Name: "purge works beside an open transaction",
	Rule: "Purge deletes what has expired and passes by, or waits for, what a transaction holds: never does it take the " +
		"record from under one that makes it anew.",
	run: func(t *trial) {
		st := t.openTx()
		for _, key := range []string{"expired", "made anew"} {
			c := unleased(key)
			c.Retention = short
			t.reserve(st, c, store.Acquired)
		}
		t.reserve(st, leased("watch"), store.Acquired)
		t.aged(st, leased("watch").ID, 2*short)
		tx, g := t.begin(st, unleased("made anew"), store.Acquired)
		t.write(tx, "made anew")
		purge := func(ctx context.Context) error {
			_, err := st.Purge(ctx, 10)
			return err
		}
		if !t.engine.singleWriter {
			t.ok(purge(t.patient()), "Purge beside a transaction")
		}
		result := t.start("Purge", purge)
		t.ok(tx.Commit(t.Context(), store.Outcome{}), "Commit")
		t.ok(result(), "Purge")
		t.settled(st, g, store.Outcome{})
		t.effects(st, "made anew", 1)
		t.purgesNothing(st)
		t.settled(st, g, store.Outcome{})
	},
}, {
	Name: "wait ends when a transaction settles the record",
	Rule: "Whoever waits for the record of an owner that died is woken when a transaction that took it over has committed.",
	run: func(t *trial) {
		st := t.openTx()
		bare := st.(interface{ shown() store.Store }).shown()
		l := t.reserve(st, unleased("k"), store.Acquired).Lease
		wait := t.waiting(bare, l, 1)
		tx, _ := t.begin(st, unleased("k"), store.TakenOver)
		t.ok(tx.Commit(t.Context(), store.Outcome{}), "Commit")
		wait(nil)
	},
}}

// inFlight makes a claim that must be told that a transaction holds its ID.
func (t *trial) inFlight(st store.TxStore[any], c store.Claim) {
	t.Helper()
	if r := t.denied(st, c, store.InFlight); r.ID != c.ID || r.State != store.StatePending {
		t.fatalf("the record is %s and of %v, want %s and %v", r.State, r.ID, store.StatePending, c.ID)
	}
}

// seen checks that readers see the standing record, and nothing of the one that the open transaction makes.
func (t *trial) seen(st store.TxStore[any], standing store.Record, unseen store.Grant) {
	t.Helper()
	t.unchanged(st, standing)
	t.absent(st, unseen.Lease.ID)
	l, ok := st.(interface{ shown() store.Store }).shown().(store.Lister)
	if !ok {
		return
	}
	n := 0
	for r, err := range l.Pending(t.patient(), "") {
		t.ok(err, "Pending")
		if r.ID != standing.ID || r.Fence != standing.Fence {
			t.fatalf("the list has %v under fence %d, want only %v under %d", r.ID, r.Fence, standing.ID, standing.Fence)
		}
		n++
	}
	if n != 1 {
		t.fatalf("the list has %d records, want the one that stands", n)
	}
}
