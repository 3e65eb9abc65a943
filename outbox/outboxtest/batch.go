package outboxtest

import (
	"fmt"
	"slices"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
)

var batchCases = []Case{
	{
		Name: "batch is enqueued whole",
		Rule: "EnqueueBatch returns the ids in the order of the events, and its events are in that order in their line",
		run: func(t *trial) {
			q := t.open()
			tx := t.begin(q)
			evs := []outbox.Event{event("a1", "a"), {}, to("d", "a1"), event("a2", "a")}
			ids, err := tx.EnqueueBatch(t.Context(), evs)
			t.ok(err, "EnqueueBatch")
			if len(ids) != 4 || ids[0] != "a1" || len(ids[1]) != 36 || ids[2] != "a1" || ids[3] != "a2" {
				t.fatalf("EnqueueBatch returned the ids %q", ids)
			}
			none, err := tx.EnqueueBatch(t.Context(), nil)
			t.ok(err, "EnqueueBatch of nothing")
			if len(none) != 0 {
				t.fatalf("EnqueueBatch of nothing returned %q", none)
			}
			t.ok(tx.Commit(t.Context()), "Commit")
			t.stats(q, 4, 0)
			q2 := t.open()
			const n = 300
			evs = nil
			for i := range n {
				evs = append(evs, event(fmt.Sprintf("k%03d", i), ""))
			}
			tx = t.begin(q2)
			_, err = tx.EnqueueBatch(t.Context(), evs)
			t.ok(err, "EnqueueBatch")
			t.ok(tx.Commit(t.Context()), "Commit")
			ds, err := q2.Claim(t.Context(), outbox.Claim{Max: n, Lease: long})
			t.ok(err, "Claim")
			for i, d := range ds {
				if d.Event.ID != evs[i].ID {
					t.fatalf("claim %d of a batch is %q, want %q", i, d.Event.ID, evs[i].ID)
				}
			}
			if len(ds) != n {
				t.fatalf("Claim returned %d events of a batch, want %d", len(ds), n)
			}
		},
	},
	{
		Name: "batch is enqueued whole or not at all",
		Rule: "one event that is refused refuses its batch, and the caller's transaction can go on",
		run: func(t *trial) {
			q := t.open()
			t.enqueue(q, event("taken", ""))
			tx := t.begin(q)
			for _, b := range []struct {
				second outbox.Event
				want   error
			}{
				{event("taken", ""), outbox.ErrDuplicate},
				{event("first", ""), outbox.ErrDuplicate},
				{event("a b", ""), store.ErrInvalid},
			} {
				_, err := tx.EnqueueBatch(t.Context(), []outbox.Event{event("first", ""), b.second})
				t.is(err, b.want, fmt.Sprintf("EnqueueBatch with %q", b.second.ID))
			}
			_, err := tx.EnqueueBatch(t.Context(), []outbox.Event{event("second", "")})
			t.ok(err, "EnqueueBatch")
			t.ok(tx.Commit(t.Context()), "Commit")
			t.claim(q, long, "taken", "second")
		},
	},
	{
		Name: "append has its own transaction",
		Rule: "Append commits all its events, or with an error none",
		run: func(t *trial) {
			q := t.open()
			t.ok(q.Append(t.Context()), "Append of nothing")
			t.ok(q.Append(t.Context(), event("a", ""), event("b", "")), "Append")
			t.is(q.Append(t.Context(), event("c", ""), event("a", "")), outbox.ErrDuplicate, "Append of a taken id")
			t.is(q.Append(t.Context(), event("c", ""), event("a b", "")), store.ErrInvalid,
				"Append of an invalid event")
			t.claim(q, long, "a", "b")
			t.ok(q.Append(t.Context(), event("c", ""), outbox.Event{}), "Append")
			t.stats(q, 4, 0)
		},
	},
	{
		Name: "one id goes to several destinations",
		Rule: "an event is an id for a destination: each is delivered, settled, redriven and dropped on its own",
		run: func(t *trial) {
			q := t.open()
			evs, err := outbox.FanOut(outbox.Event{ID: "k", OrderingKey: "line"}, "d1", "d2", "d3")
			t.ok(err, "FanOut")
			t.enqueue(q, evs...)
			tx := t.begin(q)
			_, err = tx.Enqueue(t.Context(), evs[1])
			t.is(err, outbox.ErrDuplicate, "Enqueue for a destination that has the id")
			t.ok(tx.Rollback(t.Context()), "Rollback")
			ds, err := q.Claim(t.Context(), outbox.Claim{Max: 100, Lease: long})
			t.ok(err, "Claim")
			destinations := []string{"d1", "d2", "d3"}
			slices.SortFunc(ds, func(a, b outbox.Delivery) int {
				return slices.Index(destinations, a.Event.Destination) - slices.Index(destinations, b.Event.Destination)
			})
			if len(ds) != 3 || ds[0].Event.Destination != "d1" || ds[1].Event.Destination != "d2" ||
				ds[2].Event.Destination != "d3" {
				t.fatalf("Claim returned %+v, want one event for each destination", ds)
			}
			t.settle(q, ds[0], died)
			t.settle(q, ds[1], died)
			t.is(q.Redrive(t.Context(), "k", "d3"), outbox.ErrNoLetter, "Redrive of a claimed event")
			t.settle(q, ds[2], sent)
			t.is(q.Redrive(t.Context(), "k", ""), outbox.ErrNoLetter, "Redrive without the destination")
			t.ok(q.Redrive(t.Context(), "k", "d2"), "Redrive")
			t.stats(q, 1, 1)
			if d := t.one(q, long, "k", 1); d.Event.Destination != "d2" {
				t.fatalf("the event for %q is redriven, want d2", d.Event.Destination)
			}
			t.ok(q.Drop(t.Context(), "k", "d1"), "Drop")
			t.stats(q, 1, 0)
			t.enqueue(q, evs[0]) // free again
		},
	},
}
