package storetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/redo-go/redo/store"
)

var txHeldCases = []Case{{
	Name: "begin of a held id is in flight at once",
	Rule: "A Begin does not wait for a transaction of the same ID. It is in flight immediately, with the ID and the " +
		"state of the record that is not committed, so that waiting callers don't use up a connection pool.",
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
	Name: "other payload on a held id is refused at once",
	Rule: "A Begin with another payload does not wait either. It is in flight, because its record is not committed " +
		"yet, or a mismatch where the engine can tell. After the commit it is a mismatch.",
	run: func(t *trial) {
		st := t.openTx()
		t.reserve(st, unleased("taken over"), store.Acquired)
		for key, verdict := range map[string]store.Verdict{"new": store.Acquired, "taken over": store.TakenOver} {
			tx, g := t.begin(st, unleased(key), verdict)
			other := unleased(key)
			other.Fingerprint = payload("another")
			t.held(st, other, store.InFlight, store.Mismatch)
			t.ok(tx.Commit(t.Context(), store.Outcome{}), "Commit")
			t.settled(st, g, store.Outcome{})
			t.denied(st, other, store.Mismatch)
		}
	},
}, {
	Name: "ended transaction holds nothing",
	Rule: "After Commit, Discard or Rollback has returned, the ID is free for the next Begin.",
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
	Rule: "A transaction excludes its own ID only: other operations begin, commit, and are reserved and completed " +
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
	Rule: "If the engine has one transaction at a time, a Begin of another ID waits for it until its own context " +
		"ends, and proceeds after it.",
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
			t.fatalf("Begin of another ID: verdict %q, error %v, no transaction: %t; want %v and none",
				g.Verdict, err, late == nil, context.DeadlineExceeded)
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
	Rule: "The open transaction excludes like a lease: a Reserve of its ID is in flight, or waits and returns the " +
		"committed record. Only after a rollback does it own the ID.",
	run: func(t *trial) {
		st := t.openTx()
		for i := range 8 {
			c := leased(fmt.Sprintf("k%d", i))
			standing := i%4 < 2
			if standing {
				t.reserve(st, unleased(c.ID.Key), store.Acquired)
			}
			want := store.Acquired
			if standing {
				want = store.TakenOver
			}
			tx, own := t.begin(st, unleased(c.ID.Key), want)
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
				t.fatalf("Reserve beside a transaction (that commits: %t, over a pending record: %t): %q",
					commits, standing, got.Verdict)
			}
			if commits {
				t.settled(st, own, store.Outcome{})
				t.effects(st, c.ID.Key, 1)
			}
		}
	},
}, {
	Name: "readers see what is committed beside an open transaction",
	Rule: "Find and Pending do not wait for a transaction and show nothing of it: a record that is being taken over " +
		"is unchanged, and a new one is absent.",
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
	Rule: "Purge deletes expired records. It skips, or waits for, a record that a transaction holds, and never " +
		"deletes a record that a transaction replaces.",
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
	Rule: "A waiter for a dead owner's record is woken when a transaction that took the record over has committed.",
	run: func(t *trial) {
		st := t.openTx()
		l := t.reserve(st, unleased("k"), store.Acquired).Lease
		wait := t.waiting(t.shown(st), l, 1)
		tx, _ := t.begin(st, unleased("k"), store.TakenOver)
		t.ok(tx.Commit(t.Context(), store.Outcome{}), "Commit")
		wait(nil)
	},
}}

// inFlight makes a claim of an ID that a transaction holds.
func (t *trial) inFlight(st store.TxStore[any], c store.Claim) {
	t.Helper()
	t.held(st, c, store.InFlight)
}

// held makes a claim of an ID that a transaction holds, which must get one of the verdicts.
func (t *trial) held(st store.TxStore[any], c store.Claim, want ...store.Verdict) {
	t.Helper()
	r := t.denied(st, c, want...)
	if r.ID != c.ID || r.State != store.StatePending {
		t.fatalf("the record is %s and of %v, want %s and %v", r.State, r.ID, store.StatePending, c.ID)
	}
}

// seen checks that readers see the standing record, and nothing of the one that the open transaction makes.
func (t *trial) seen(st store.TxStore[any], standing store.Record, unseen store.Grant) {
	t.Helper()
	t.unchanged(st, standing)
	t.absent(st, unseen.Lease.ID)
	l, ok := t.shown(st).(store.Lister)
	if !ok {
		return
	}
	n := 0
	for r, err := range l.Pending(t.patient(), "") {
		t.ok(err, "Pending")
		if r.ID != standing.ID || r.Fence != standing.Fence {
			t.fatalf("the list has %v under fence %d, want only %v under %d",
				r.ID, r.Fence, standing.ID, standing.Fence)
		}
		n++
	}
	if n != 1 {
		t.fatalf("the list has %d records, want the existing one", n)
	}
}
