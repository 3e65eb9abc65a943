package outboxtest

import (
	"fmt"
	"slices"
	"time"

	"github.com/redo-go/redo/outbox"
)

var eventsCases = []Case{
	{
		Name: "events are listed in order",
		Rule: "the dead letters come first, the one that died first at the front, then the events that " +
			"wait, the oldest first",
		run: func(t *trial) {
			q := t.open()
			t.enqueue(q, event("sent", ""), event("late", ""), event("rests", ""), event("early", ""),
				event("claimed", ""))
			ds := t.claim(q, long, "sent", "late", "rests", "early", "claimed")
			t.settle(q, ds[3], died)
			t.settle(q, ds[1], died)
			t.settle(q, ds[0], sent)
			t.settle(q, ds[2], waiting(long))
			t.enqueue(q, event("new", "a"), event("behind", "a"))
			found := t.events(q, outbox.Selection{}, "early", "late", "rests", "claimed", "new", "behind")
			for i, e := range found {
				dead := i < 2
				if (e.State == outbox.StateDead) != dead || (e.State == outbox.StateWaiting) == dead {
					t.fatalf("the state of %q is %d", e.Event.ID, e.State)
				}
				if e.EnqueuedAt.IsZero() || e.DeadAt.IsZero() == dead || e.DueAt.IsZero() != dead {
					t.fatalf("%q was enqueued at %v, is due at %v and died at %v",
						e.Event.ID, e.EnqueuedAt, e.DueAt, e.DeadAt)
				}
			}
			for i, want := range []int{1, 1, 1, 1, 0, 0} {
				if found[i].Attempts != want {
					t.fatalf("%q has %d attempts, want %d", found[i].Event.ID, found[i].Attempts, want)
				}
			}
			if e := found[2]; e.DueAt.Sub(e.EnqueuedAt) < long || e.Failure() != waiting(0).Failure {
				t.fatalf("the event that rests is due at %v and failed with %+v", e.DueAt, e.Failure())
			}
			if e := found[3]; e.DueAt.Sub(e.EnqueuedAt) < long || len(e.History) != 0 {
				t.fatalf("the lease of the claimed event ends at %v, its history is %+v", e.DueAt, e.History)
			}
		},
	},
	{
		Name: "events are selected",
		Rule: "a selection names events by state, id, destination, type and the instant of Enqueue; each field " +
			"that is set must match",
		run: func(t *trial) {
			q := t.open()
			t.enqueue(q,
				outbox.Event{ID: "a", Destination: "d1", Type: "x"},
				outbox.Event{ID: "a", Destination: "d2", Type: "y"},
				outbox.Event{ID: "b", Destination: "d1", Type: "y"}, outbox.Event{ID: "c", Type: "x"},
			)
			ds := t.claim(q, long, "a", "a", "b", "c")
			t.settle(q, ds[3], died)
			i := slices.IndexFunc(ds, func(d outbox.Delivery) bool { return d.Event.Destination == "d2" })
			t.settle(q, ds[i], died)
			all := t.events(q, outbox.Selection{}, "c", "a", "a", "b")
			start := slices.MinFunc(all, func(a, b outbox.Entry) int {
				return a.EnqueuedAt.Compare(b.EnqueuedAt)
			}).EnqueuedAt
			t.until("the queue's clock has gone on", func() bool {
				st, err := q.Stats(t.Context())
				t.ok(err, "Stats")
				return st.Oldest > 5*time.Millisecond
			})
			t.enqueue(q, to("d1", "last"))
			last := t.events(q, outbox.Selection{ID: "last"}, "last")[0].EnqueuedAt
			for _, s := range []struct {
				outbox.Selection
				ids []string
			}{
				{outbox.Selection{State: outbox.StateDead}, []string{"c", "a"}},
				{outbox.Selection{State: outbox.StateWaiting}, []string{"a", "b", "last"}},
				{outbox.Selection{ID: "a"}, []string{"a", "a"}},
				{outbox.Selection{ID: "a", Destination: "d1"}, []string{"a"}},
				{outbox.Selection{Destination: "d1"}, []string{"a", "b", "last"}},
				{outbox.Selection{Type: "y"}, []string{"a", "b"}},
				{outbox.Selection{Type: "y", State: outbox.StateDead}, []string{"a"}},
				{outbox.Selection{Type: "z"}, nil},
				{outbox.Selection{Since: last}, []string{"last"}},
				{outbox.Selection{Until: last}, []string{"c", "a", "a", "b"}},
				{outbox.Selection{Since: start, Until: last, State: outbox.StateDead}, []string{"c", "a"}},
				{outbox.Selection{Until: start}, nil},
				{outbox.Selection{Since: last.Add(time.Microsecond)}, nil},
			} {
				t.events(q, s.Selection, s.ids...)
			}
		},
	},
	{
		Name: "events are listed, however many",
		Rule: "a list longer than a page misses none, and a selection that names few of many finds them",
		run: func(t *trial) {
			q := t.open()
			const n = 430
			var evs []outbox.Event
			var all, few []string
			for i := range n {
				ev := event(fmt.Sprintf("k%03d", i), "")
				if all = append(all, ev.ID); i%100 == 99 {
					ev.Type = "rare"
					few = append(few, ev.ID)
				}
				evs = append(evs, ev)
			}
			t.enqueue(q, evs...)
			t.events(q, outbox.Selection{}, all...)
			t.events(q, outbox.Selection{Type: "rare"}, few...)
			for e, err := range q.Events(t.Context(), outbox.Selection{}) {
				t.ok(err, "Events")
				if e.Event.ID != "k000" {
					t.fatalf("the loop goes on with %q after its break", e.Event.ID)
				}
				break
			}
		},
	},
	{
		Name: "unreadable event hides no other",
		Rule: "an event that can't be read is listed with an error and a name, and the list goes on",
		run: func(t *trial) {
			if t.h.Spoil == nil {
				t.Skipf("the harness can't make an event unreadable")
			}
			q := t.open()
			for _, id := range []string{"dead1", "bad", "dead2"} {
				t.bury(q, event(id, ""))
			}
			t.enqueue(q, event("w1", ""), event("worse", ""), event("w2", ""))
			t.h.Spoil(t.t, q, "bad", "")
			t.h.Spoil(t.t, q, "worse", "")
			var good, bad []string
			for e, err := range q.Events(t.Context(), outbox.Selection{}) {
				if err == nil {
					good = append(good, e.Event.ID)
					continue
				}
				bad = append(bad, e.Event.ID)
			}
			if !slices.Equal(good, []string{"dead1", "dead2", "w1", "w2"}) ||
				!slices.Equal(bad, []string{"bad", "worse"}) {
				t.fatalf("Events lists %q, and with an error %q", good, bad)
			}
			t.ok(q.Drop(t.Context(), "bad", ""), "Drop of an unreadable dead letter")
		},
	},
	{
		Name: "purge counts from Enqueue",
		Rule: "a sent event can be purged when it was enqueued longer than age ago, whenever it was sent",
		run: func(t *trial) {
			q := t.open()
			t.enqueue(q, event("k", ""))
			d := t.one(q, long, "k", 1)
			const age = 200 * time.Millisecond
			t.until("the event is old enough", func() bool {
				st, err := q.Stats(t.Context())
				t.ok(err, "Stats")
				return st.Oldest > age+5*time.Millisecond
			})
			t.settle(q, d, sent)
			t.purge(q, age, 1, 1)
		},
	},
}
