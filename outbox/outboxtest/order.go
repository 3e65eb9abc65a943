package outboxtest

import "github.com/redo-go/redo/outbox"

var orderCases = []Case{
	{
		Name: "events of a key come one after the other",
		Rule: "of an ordering key one event is under way at a time, in the order of their Enqueue; other keys, and " +
			"events without one, don't wait for it",
		run: func(t *trial) {
			q := t.open()
			t.enqueue(q, event("a1", "a"), event("a2", "a"), event("b1", "b"), event("free", ""))
			t.enqueue(q, event("a3", "a"))
			ds := t.claim(q, long, "a1", "b1", "free")
			t.claim(t.beside(q), long)
			t.settle(q, ds[0], sent)
			a2 := t.one(q, long, "a2", 1)
			t.claim(q, long)
			t.settle(q, a2, sent)
			t.one(q, long, "a3", 1)
		},
	},
	{
		Name: "failed event holds its key alone",
		Rule: "while an event waits for another try, those behind it wait too, and no others do",
		run: func(t *trial) {
			q := t.open()
			t.enqueue(q, event("poison", "a"), event("a2", "a"), event("b1", "b"))
			ds := t.claim(q, long, "poison", "b1")
			t.settle(q, ds[0], waiting(long))
			t.enqueue(q, event("b2", "b"), event("a3", "a"), event("free", ""))
			t.settle(q, ds[1], sent)
			t.claim(q, long, "b2", "free")
		},
	},
	{
		Name: "key of a dead relay stays in order",
		Rule: "those behind an event wait also when its lease has ended: it comes first",
		run: func(t *trial) {
			q := t.open()
			t.enqueue(q, event("a1", "a"), event("a2", "a"))
			t.one(q, short, "a1", 1)
			d := t.comes(q, "a1")
			t.claim(q, long)
			t.settle(q, d, sent)
			t.one(q, long, "a2", 1)
		},
	},
	{
		Name: "key goes on after a dead letter",
		Rule: "a message that can't be delivered never blocks the rest for good",
		run: func(t *trial) {
			q := t.open()
			t.enqueue(q, event("poison", "a"), event("a2", "a"))
			t.settle(q, t.one(q, long, "poison", 1), died)
			t.one(q, long, "a2", 1)
		},
	},
	{
		Name: "held key waits for its dead letter",
		Rule: "with HoldKeys those behind a dead letter wait until it was redriven and sent, or " +
			"dropped; other keys go on",
		run: func(t *trial) {
			q := t.open()
			hold := outbox.Claim{Max: 100, Lease: long, HoldKeys: true}
			t.enqueue(q, event("a1", "a"), event("a2", "a"), event("b1", "b"), event("b2", "b"), event("c1", "c"))
			ds := t.claimed(q, hold, "a1", "b1", "c1")
			t.settle(q, ds[0], died)
			t.settle(q, ds[1], died)
			t.settle(q, ds[2], sent)
			t.claimed(q, hold)
			t.ok(q.Redrive(t.Context(), "a1", ""), "Redrive")
			a1 := t.claimed(q, hold, "a1")[0]
			t.claimed(q, hold)
			t.settle(q, a1, sent)
			t.claimed(q, hold, "a2")
			t.ok(q.Drop(t.Context(), "b1", ""), "Drop")
			t.claimed(q, hold, "b2")
		},
	},
	{
		Name: "dead letter holds only what stands behind it",
		Rule: "with HoldKeys an event that was redriven is not held by a dead letter of its key that comes after it",
		run: func(t *trial) {
			q := t.open()
			t.enqueue(q, event("a1", "a"), event("a2", "a"), event("a3", "a"))
			t.settle(q, t.one(q, long, "a1", 1), died)
			t.settle(q, t.one(q, long, "a2", 1), died)
			t.ok(q.Redrive(t.Context(), "a1", ""), "Redrive")
			hold := outbox.Claim{Max: 100, Lease: long, HoldKeys: true}
			t.settle(q, t.claimed(q, hold, "a1")[0], sent)
			t.claimed(q, hold) // a2 is dead before a3
		},
	},
	{
		Name: "redriven event takes its place",
		Rule: "a redriven event goes before those behind it, and waits for the one of its key that is under way",
		run: func(t *trial) {
			q := t.open()
			t.enqueue(q, event("a1", "a"), event("a2", "a"), event("a3", "a"))
			t.settle(q, t.one(q, long, "a1", 1), died)
			a2 := t.one(q, long, "a2", 1)
			t.ok(q.Redrive(t.Context(), "a1", ""), "Redrive")
			t.claim(q, long) // a2 is in flight
			t.settle(q, a2, waiting(0))
			t.settle(q, t.comes(q, "a1"), sent)
			t.settle(q, t.comes(q, "a2"), sent)
			t.comes(q, "a3")
		},
	},
	{
		Name: "redriven event goes before one that rests",
		Rule: "a redriven event is due immediately, also when one behind it in its key waits for another try",
		run: func(t *trial) {
			q := t.open()
			t.enqueue(q, event("a1", "a"), event("a2", "a"))
			t.settle(q, t.one(q, long, "a1", 1), died)
			t.settle(q, t.one(q, long, "a2", 1), waiting(long))
			t.ok(q.Redrive(t.Context(), "a1", ""), "Redrive")
			t.settle(q, t.comes(q, "a1"), sent)
			t.claim(q, long) // a2 still rests
		},
	},
	{
		Name: "late commit joins its line",
		Rule: "an event that is committed late is not skipped, and waits while another event of its line is " +
			"claimed; the order of concurrent transactions is not promised",
		run: func(t *trial) {
			if t.h.SingleWriter {
				t.Skipf("the engine has one write transaction at a time")
			}
			q := t.open()
			late, early := t.begin(q), t.begin(q)
			t.write(late, event("late", "a"))
			t.write(early, event("early", "a"))
			t.write(early, event("next", "a"))
			t.ok(early.Commit(t.Context()), "Commit")
			d := t.one(q, long, "early", 1)
			t.ok(late.Commit(t.Context()), "Commit")
			t.claim(q, long)
			t.settle(q, d, sent)
			left := map[string]bool{"late": true, "next": true}
			for len(left) > 0 {
				ds, err := q.Claim(t.Context(), outbox.Claim{Max: 1, Lease: long})
				t.ok(err, "Claim")
				if len(ds) != 1 || !left[ds[0].Event.ID] {
					t.fatalf("Claim returned %d events, want one of %v", len(ds), left)
				}
				delete(left, ds[0].Event.ID)
				t.claim(q, long)
				t.settle(q, ds[0], sent)
			}
			t.stats(q, 0, 0)
		},
	},
	{
		Name: "claim takes a line's events in their order",
		Rule: "a claim may take several events of a line, the oldest ones in their order; no other claim takes one " +
			"of the line while it holds one",
		run: func(t *trial) {
			q := t.open()
			ids := []string{"a1", "a2", "a3", "a4"}
			for _, id := range ids[:3] {
				t.enqueue(q, event(id, "a"))
			}
			for done := 0; done < len(ids); {
				ds, err := q.Claim(t.Context(), outbox.Claim{Max: 100, Lease: long})
				t.ok(err, "Claim")
				if len(ds) == 0 || len(ds) > len(ids)-done {
					t.fatalf("Claim returned %d events, 1 to %d are due", len(ds), len(ids)-done)
				}
				if done == 0 {
					t.enqueue(q, event("a4", "a"))
				}
				for _, d := range ds {
					if d.Event.ID != ids[done] {
						t.fatalf("Claim returned %q, want %q", d.Event.ID, ids[done])
					}
					t.claim(t.beside(q), long)
					t.settle(q, d, sent)
					done++
				}
			}
			t.stats(q, 0, 0)
		},
	},
	{
		Name: "rest of a line is released with the event that failed",
		Rule: "one Settle ends a claim of several events: the failed one waits, the others keep their " +
			"attempts and their order",
		run: func(t *trial) {
			q := t.open()
			t.enqueue(q, event("a1", "a"), event("a2", "a"), event("a3", "a"))
			ds, err := q.Claim(t.Context(), outbox.Claim{Max: 100, Lease: long})
			t.ok(err, "Claim")
			ended := []outbox.Settlement{{Lease: ds[0].Lease, Outcome: waiting(short)}}
			for _, d := range ds[1:] {
				ended = append(ended, outbox.Settlement{Lease: d.Lease, Outcome: released})
			}
			t.settleAll(q, ended...)
			d := t.comes(q, "a1") // no event of the line comes before it
			t.settle(q, d, sent)
			t.settle(q, t.one(q, long, "a2", 1), sent)
			t.one(q, long, "a3", 1)
		},
	},
}
