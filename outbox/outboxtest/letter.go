package outboxtest

import (
	"fmt"

	"github.com/redo-go/redo/outbox"
)

var letterCases = []Case{
	{
		Name: "dead letter tells what it was and why it died",
		Rule: "an operator sees the event, its attempts and the last failure",
		run: func(t *trial) {
			q := t.open()
			ev := event("k", "line")
			ev.Payload = []byte("body")
			t.enqueue(q, ev)
			t.settle(q, t.one(q, long, "k", 1), waiting(0))
			d := t.comes(q, "k")
			t.settle(q, d, died)
			t.claim(q, long)
			t.stats(q, 0, 1)
			e := t.events(q, outbox.Selection{State: outbox.StateDead}, "k")[0]
			if string(e.Event.Payload) != "body" || e.State != outbox.StateDead || e.Attempts != 2 ||
				e.Failure() != died.Failure {
				t.fatalf("the dead letter is %+v", e)
			}
			if e.EnqueuedAt.IsZero() || e.DeadAt.Before(e.EnqueuedAt) || !e.DueAt.IsZero() {
				t.fatalf("the dead letter was enqueued at %v, died at %v and is due at %v",
					e.EnqueuedAt, e.DeadAt, e.DueAt)
			}
		},
	},
	{
		Name: "dead letters are listed in order, however many",
		Rule: "the oldest dead letter comes first, none is missing, and the loop's body may redrive them",
		run: func(t *trial) {
			q := t.open()
			const n = 230 // more than a page
			for i := range n {
				t.bury(q, event(fmt.Sprintf("k%03d", i), ""))
			}
			i := 0
			for l, err := range q.Events(t.Context(), outbox.Selection{State: outbox.StateDead}) {
				t.ok(err, "Events")
				if want := fmt.Sprintf("k%03d", i); l.Event.ID != want {
					t.fatalf("dead letter %d is %q, want %q", i, l.Event.ID, want)
				}
				t.ok(q.Redrive(t.Context(), l.Event.ID, ""), "Redrive")
				i++
			}
			if i != n {
				t.fatalf("%d dead letters are listed, want %d", i, n)
			}
			t.stats(q, n, 0)
		},
	},
	{
		Name: "redriven event starts anew under its own id",
		Rule: "a redrive is a new schedule for the same event: same id, first attempt, a fence above all before",
		run: func(t *trial) {
			q := t.open()
			t.enqueue(q, event("k", "line"))
			first := t.one(q, long, "k", 1)
			t.settle(q, first, died)
			t.ok(q.Redrive(t.Context(), "k", ""), "Redrive")
			t.stats(q, 1, 0)
			t.events(q, outbox.Selection{State: outbox.StateDead})
			again := t.one(q, long, "k", 1)
			if again.Lease.Fence <= first.Lease.Fence || again.Tried != 0 {
				t.fatalf("the redriven event has fence %d after %d, and was tried %v ago",
					again.Lease.Fence, first.Lease.Fence, again.Tried)
			}
			t.settle(q, again, sent)
			t.stats(q, 0, 0)
		},
	},
	{
		Name: "only a dead letter is redriven or dropped",
		Rule: "an event that waits, is under way, was sent, or is not there is left alone",
		run: func(t *trial) {
			q := t.open()
			t.enqueue(q, event("sent", ""), event("rests", ""), event("claimed", ""))
			ds := t.claim(q, long, "sent", "rests", "claimed")
			t.settle(q, ds[0], sent)
			t.settle(q, ds[1], waiting(long))
			for _, id := range []string{"sent", "rests", "claimed", "none", ""} {
				t.is(q.Redrive(t.Context(), id, ""), outbox.ErrNoLetter, "Redrive of "+id)
				t.is(q.Drop(t.Context(), id, ""), outbox.ErrNoLetter, "Drop of "+id)
			}
			t.settle(q, ds[2], sent)
		},
	},
	{
		Name: "dropped letter is gone",
		Rule: "a dead letter that is dropped is never delivered, and its id is free",
		run: func(t *trial) {
			q := t.open()
			t.bury(q, event("k", "line"))
			t.ok(q.Drop(t.Context(), "k", ""), "Drop")
			t.stats(q, 0, 0)
			t.claim(q, long)
			t.enqueue(q, event("k", "line"))
			t.one(q, long, "k", 1)
		},
	},
	{
		Name: "purge deletes what was sent long ago, and nothing else",
		Rule: "purging never loses an event that is waiting, under way or dead, keeps to its limit, and frees the ids",
		run: func(t *trial) {
			q := t.open()
			t.bury(q, event("dead", ""))
			t.enqueue(q, event("s1", "a"), event("s2", ""), event("s3", ""), event("rests", ""), event("claimed", ""))
			ds := t.claim(q, long, "s1", "s2", "s3", "rests", "claimed")
			for _, d := range ds[:3] {
				t.settle(q, d, sent)
			}
			t.settle(q, ds[3], waiting(long))
			t.purge(q, long, 10, 0) // not old enough
			t.until("the events were sent a moment ago", func() bool {
				n, err := q.Purge(t.Context(), poll, 2)
				t.ok(err, "Purge")
				if n != 0 && n != 2 && n != 1 {
					t.fatalf("Purge deleted %d events, its limit is 2", n)
				}
				var left int
				for _, id := range []string{"s1", "s2", "s3"} {
					tx := t.begin(q)
					if _, err := tx.Enqueue(t.Context(), event(id, "")); err != nil {
						t.is(err, outbox.ErrDuplicate, "Enqueue")
						left++
					}
					t.ok(tx.Rollback(t.Context()), "Rollback")
				}
				return left == 0
			})
			t.purge(q, 0, 10, 0)
			t.stats(q, 2, 1)
			t.settle(q, ds[4], sent)
			t.ok(q.Redrive(t.Context(), "dead", ""), "Redrive")
			t.one(q, long, "dead", 1)
		},
	},
}
