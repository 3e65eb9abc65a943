package outboxtest

import (
	"fmt"
	"time"

	"github.com/redo-go/redo/outbox"
)

var settleCases = []Case{
	{
		Name: "settlements are written together",
		Rule: "Settle writes each of its outcomes, returns the leases that are lost, and settles the " +
			"others all the same",
		run: func(t *trial) {
			q := t.open()
			t.ok(func() error { _, err := q.Settle(t.Context()); return err }(), "Settle of nothing")
			t.enqueue(q, event("stale", ""))
			stale := t.claim(q, short, "stale")[0]
			fresh := t.comes(q, "stale")
			t.enqueue(q, event("sent", ""), event("waits", ""), event("dead", ""), event("released", ""))
			ds := t.claim(q, long, "sent", "waits", "dead", "released")
			none := outbox.Lease{Seq: 1 << 40, Fence: 1}
			lost, err := q.Settle(t.Context(),
				outbox.Settlement{Lease: stale.Lease, Outcome: died},
				outbox.Settlement{Lease: ds[0].Lease, Outcome: sent},
				outbox.Settlement{Lease: ds[1].Lease, Outcome: waiting(long)},
				outbox.Settlement{Lease: none, Outcome: waiting(0)},
				outbox.Settlement{Lease: ds[2].Lease, Outcome: died},
				outbox.Settlement{Lease: ds[3].Lease, Outcome: released},
			)
			t.ok(err, "Settle")
			t.leases(lost, "Settle", stale.Lease, none)
			t.stats(q, 3, 1)
			t.one(q, long, "released", 1)
			t.settle(q, fresh, sent)
		},
	},
	{
		Name: "leases are extended together",
		Rule: "Extend extends each lease that is live, and returns those that are lost",
		run: func(t *trial) {
			q := t.open()
			t.ok(func() error { _, err := q.Extend(t.Context(), long); return err }(), "Extend of nothing")
			t.enqueue(q, event("a", ""), event("b", ""), event("marker", ""))
			ds := t.claim(q, short, "a", "b", "marker")
			gone := outbox.Lease{Seq: ds[0].Lease.Seq, Fence: ds[0].Lease.Fence + 1}
			lost, err := q.Extend(t.Context(), long, ds[0].Lease, gone, ds[1].Lease)
			t.ok(err, "Extend")
			t.leases(lost, "Extend", gone)
			t.comes(q, "marker") // its lease was the same
			t.claim(q, long)
			t.settleAll(q, outbox.Settlement{Lease: ds[0].Lease, Outcome: sent},
				outbox.Settlement{Lease: ds[1].Lease, Outcome: sent})
		},
	},
	{
		Name: "history keeps each failure",
		Rule: "an operator sees when each attempt failed, with its code, text, status, response and duration, " +
			"after a redrive too",
		run: func(t *trial) {
			q := t.open()
			t.enqueue(q, event("k", ""))
			want := []outbox.Failure{
				{
					Code: "TRANSIENT.internal", Reason: "status 500: ü", Status: 500, Response: "<html>\nü",
					Elapsed: 1500 * time.Millisecond,
				},
				{Code: "DEPENDENCY.timeout", Reason: "no response"},
				{Code: "VALIDATION.gone", Reason: "gone", Status: 410, Response: "", Elapsed: time.Millisecond},
				{Code: "RATE_LIMIT.exceeded", Status: 429, Elapsed: time.Minute},
			}
			for i, f := range want {
				o := outbox.Outcome{Result: outbox.Waiting, Failure: f}
				if i == 2 {
					o.Result = outbox.Dead
				}
				t.settle(q, t.comes(q, "k"), o)
				if i == 2 {
					t.ok(q.Redrive(t.Context(), "k", ""), "Redrive")
				}
			}
			t.settle(q, t.comes(q, "k"), released) // no failure
			e := t.events(q, outbox.Selection{}, "k")[0]
			if len(e.History) != len(want) {
				t.fatalf("the history has %d failures, want %d: %+v", len(e.History), len(want), e.History)
			}
			for i, f := range e.History {
				if f.Failure != want[i] {
					t.fatalf("failure %d is %+v, want %+v", i, f.Failure, want[i])
				}
				if f.At.Before(e.EnqueuedAt) || i > 0 && f.At.Before(e.History[i-1].At) {
					t.fatalf("failure %d was at %v, the event was enqueued at %v: %+v",
						i, f.At, e.EnqueuedAt, e.History)
				}
			}
		},
	},
	{
		Name: "history keeps the last failures",
		Rule: "of an event that fails for ever the last MaxHistory failures are kept",
		run: func(t *trial) {
			q := t.open()
			t.enqueue(q, event("k", ""))
			const n = outbox.MaxHistory + 3
			for i := range n {
				t.settle(q, t.comes(q, "k"),
					outbox.Outcome{Result: outbox.Waiting, Failure: outbox.Failure{Reason: fmt.Sprint(i)}})
			}
			h := t.events(q, outbox.Selection{}, "k")[0].History
			if len(h) != outbox.MaxHistory || h[0].Reason != "3" || h[len(h)-1].Reason != fmt.Sprint(n-1) {
				t.fatalf("the history has %d failures, from %+v to %+v", len(h), h[0], h[len(h)-1])
			}
		},
	},
}
