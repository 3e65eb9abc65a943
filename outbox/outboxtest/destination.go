package outboxtest

import (
	"fmt"

	"github.com/redo-go/redo/outbox"
)

// limited claims events and checks the number for each destination.
func (t *trial) limited(q Queue, c outbox.Claim, want map[string]int) {
	t.Helper()
	c.Lease = long
	ds, err := q.Claim(t.Context(), c)
	t.ok(err, "Claim")
	got := map[string]int{}
	for _, d := range ds {
		got[d.Event.Destination]++
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.fatalf("Claim with the limits %+v returned %v events by destination, want %v", c, got, want)
	}
}

// fill enqueues n events for a destination, each in its own line. The line has a key if keyed is true.
func (t *trial) fill(q Queue, destination string, n int, keyed bool) {
	t.Helper()
	evs := make([]outbox.Event, n)
	for i := range evs {
		evs[i] = to(destination, fmt.Sprintf("%s-%03d", destination, i))
		if keyed {
			evs[i].OrderingKey = evs[i].ID
		}
	}
	t.enqueue(q, evs...)
}

var destinationCases = []Case{
	{
		Name: "line is of one destination",
		Rule: "events with one ordering key for two destinations don't wait for each other",
		run: func(t *trial) {
			q := t.open()
			line := func(destination, id string) outbox.Event {
				return outbox.Event{ID: id, Destination: destination, OrderingKey: "a"}
			}
			t.enqueue(q, line("d1", "one-1"), line("d2", "two-1"), line("d1", "one-2"), line("d2", "two-2"))
			ds := t.claim(q, long, "one-1", "two-1")
			t.settle(q, ds[0], waiting(long))
			t.settle(q, ds[1], sent)
			t.claim(q, long, "two-2")
		},
	},
	{
		Name: "claim keeps to the limit of a destination",
		Rule: "a claim takes at most PerDestination events of a destination, or the number in Room, and " +
			"at most Max of all",
		run: func(t *trial) {
			q := t.open()
			t.fill(q, "d1", 12, false)
			t.fill(q, "d2", 12, false)
			t.fill(q, "", 3, false)
			t.limited(q, outbox.Claim{Max: 100, PerDestination: 2}, map[string]int{"d1": 2, "d2": 2, "": 2})
			t.limited(q, outbox.Claim{Max: 100, PerDestination: 2, Room: map[string]int{"d1": 3, "": 0}},
				map[string]int{"d1": 3, "d2": 2})
			t.limited(q, outbox.Claim{Max: 100, PerDestination: 1, Room: map[string]int{"d1": 0, "none": 5}},
				map[string]int{"d2": 1, "": 1})
			t.limited(q, outbox.Claim{Max: 2, PerDestination: 2, Room: map[string]int{"d2": 0}},
				map[string]int{"d1": 2})
			t.limited(q, outbox.Claim{Max: 100, Room: map[string]int{"d1": 0}}, map[string]int{"d2": 7})
			t.limited(q, outbox.Claim{Max: 100}, map[string]int{"d1": 5})
		},
	},
	{
		Name: "limit holds for the events of a line",
		Rule: "a claim that takes several events of a line keeps to the limit of its destination, and to Max",
		run: func(t *trial) {
			q := t.open()
			for i := range 6 {
				t.enqueue(q, outbox.Event{ID: fmt.Sprint("k", i), Destination: "d", OrderingKey: "a"})
			}
			for _, c := range []outbox.Claim{
				{Max: 100, Lease: long, PerDestination: 2}, {Max: 100, Lease: long, Room: map[string]int{"d": 2}},
				{Max: 2, Lease: long},
			} {
				ds, err := q.Claim(t.Context(), c)
				t.ok(err, "Claim")
				if len(ds) == 0 || len(ds) > 2 {
					t.fatalf("Claim with the limits %+v returned %d events, want 1 or 2", c, len(ds))
				}
				for _, d := range ds {
					t.settle(q, d, released)
				}
			}
		},
	},
	{
		Name: "full destination hides no other",
		Rule: "events that a claim may not take, however many and however old, keep no event of " +
			"another destination back",
		run: func(t *trial) {
			for _, keyed := range []bool{false, true} {
				q := t.open()
				t.fill(q, "full", 300, keyed)
				t.fill(q, "some", 300, keyed)
				t.fill(q, "free", 3, keyed)
				c := outbox.Claim{Max: 5, PerDestination: 100, Room: map[string]int{"full": 0, "some": 1}}
				t.limited(q, c, map[string]int{"some": 1, "free": 3})
			}
		},
	},
	{
		Name: "disabled destination waits",
		Rule: "a disabled destination gets no event, those that come later included, until it is enabled; others go on",
		run: func(t *trial) {
			q := t.open()
			t.enqueue(q, to("d1", "a"), to("d2", "b"), to("d1", "rests"))
			ds := t.claim(q, long, "a", "b", "rests")
			t.settle(q, ds[0], waiting(0))
			t.settle(q, ds[2], waiting(long))
			t.ok(q.Disable(t.Context(), "d1", died.Failure), "Disable")
			t.enqueue(q, to("d1", "later"), to("d2", "free"),
				outbox.Event{ID: "line", Destination: "d1", OrderingKey: "a"})
			t.claim(q, long, "free")
			t.claim(t.beside(q), long)
			t.stats(q, 6, 0)
			t.ok(q.Enable(t.Context(), "d1"), "Enable")
			got := map[string]int{}
			for _, d := range t.claim(t.beside(q), long, "a", "later", "line") {
				got[d.Event.ID] = d.Attempt
			}
			if got["a"] != 2 || got["later"] != 1 {
				t.fatalf("after Enable the attempts are %v, want 2 of a and 1 of later", got)
			}
			t.ok(q.Enable(t.Context(), "d1"), "Enable of an enabled destination")
		},
	},
	{
		Name: "disabled destination's deliveries are settled",
		Rule: "an event that is under way when its destination is disabled ends like any other",
		run: func(t *trial) {
			q := t.open()
			t.enqueue(q, to("d", "sent"), to("d", "waits"), to("d", "dead"), to("d", "dies"))
			ds := t.claim(q, long, "sent", "waits", "dead", "dies")
			t.settle(q, ds[2], died)
			t.ok(q.Disable(t.Context(), "d", died.Failure), "Disable")
			t.extend(q, long, ds[0].Lease)
			t.settle(q, ds[0], sent)
			t.settle(q, ds[1], waiting(0))
			t.settle(q, ds[3], died)
			t.stats(q, 1, 2)
			t.ok(q.Redrive(t.Context(), "dead", "d"), "Redrive")
			t.claim(q, long)
			t.ok(q.Enable(t.Context(), "d"), "Enable")
			t.claim(q, long, "waits", "dead")
		},
	},
	{
		Name: "disabled destinations are listed",
		Rule: "an operator sees each disabled destination with the first reason and its instant, in alphabetical order",
		run: func(t *trial) {
			q := t.open()
			first := outbox.Failure{
				Code: "VALIDATION.gone", Reason: "gone: ü", Status: 410, Response: "no", Elapsed: 3_000_000,
			}
			t.ok(q.Disable(t.Context(), "https://b.example/?x=1", first), "Disable")
			t.ok(q.Disable(t.Context(), "https://a.example/", died.Failure), "Disable")
			t.ok(q.Disable(t.Context(), "https://c.example/", died.Failure), "Disable")
			t.ok(q.Disable(t.Context(), "https://b.example/?x=1", died.Failure), "Disable again")
			t.ok(q.Enable(t.Context(), "https://c.example/"), "Enable")
			found, err := t.beside(q).Disabled(t.Context())
			t.ok(err, "Disabled")
			if len(found) != 2 || found[0].Destination != "https://a.example/" ||
				found[1].Destination != "https://b.example/?x=1" {
				t.fatalf("the disabled destinations are %+v", found)
			}
			if found[1].Why != first || found[1].Since.IsZero() || found[1].Since.After(found[0].Since) {
				t.fatalf("the destination that was disabled first is %+v, after %+v", found[1], found[0])
			}
		},
	},
}
