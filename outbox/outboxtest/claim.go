package outboxtest

import (
	"fmt"
	"strings"
	"time"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
)

var claimCases = []Case{
	{
		Name: "claimed event is nobody else's",
		Rule: "while its lease is live an event is delivered by one relay alone",
		run: func(t *trial) {
			q := t.open()
			t.enqueue(q, event("k", ""))
			d := t.one(q, long, "k", 1)
			t.claim(q, long)
			t.claim(t.beside(q), long)
			if d.Age < 0 || d.Tried != 0 {
				t.fatalf("the first claim returns an event of age %v that was tried %v ago", d.Age, d.Tried)
			}
		},
	},
	{
		Name: "claim takes the oldest, and no more than it may",
		Rule: "events are delivered about in the order in which they became due, so that none starves",
		run: func(t *trial) {
			q := t.open()
			t.enqueue(q, event("a", ""), event("b", ""), event("c", ""), event("d", ""))
			t.claimed(q, outbox.Claim{Max: 1, Lease: long}, "a")
			t.claimed(q, outbox.Claim{Max: 2, Lease: long}, "b", "c")
			t.claimed(q, outbox.Claim{Max: 2, Lease: long}, "d")
		},
	},
	{
		Name: "sent event is done",
		Rule: "an acknowledged event is never claimed again, and its lease is gone",
		run: func(t *trial) {
			q := t.open()
			t.enqueue(q, event("k", ""))
			d := t.one(q, long, "k", 1)
			t.stats(q, 1, 0)
			t.settle(q, d, sent)
			t.claim(q, long)
			t.stats(q, 0, 0)
			t.lost(q, d.Lease, "a settled event")
		},
	},
	{
		Name: "failed event rests, and is counted",
		Rule: "an event that failed is not due before its wait is over, and its next claim is one attempt more",
		run: func(t *trial) {
			q := t.open()
			t.enqueue(q, event("rests", ""), event("soon", ""))
			ds := t.claim(q, long, "rests", "soon")
			t.settle(q, ds[0], waiting(long))
			t.settle(q, ds[1], waiting(0))
			d := t.comes(q, "soon")
			if d.Attempt != 2 || d.Lease.Fence <= ds[1].Lease.Fence || d.Tried <= 0 || d.Tried > d.Age {
				t.fatalf("the second claim has attempt %d, fence %d after %d, and was tried %v ago",
					d.Attempt, d.Lease.Fence, ds[1].Lease.Fence, d.Tried)
			}
			t.claim(q, long)
			t.stats(q, 2, 0)
			t.lost(q, ds[0].Lease, "an event that rests")
		},
	},
	{
		Name: "wait ends",
		Rule: "an event is due again when its wait is over, by the queue's own clock",
		run: func(t *trial) {
			q := t.open()
			t.enqueue(q, event("k", ""))
			t.settle(q, t.one(q, long, "k", 1), waiting(short))
			if d := t.comes(q, "k"); d.Tried < short {
				t.fatalf("the event was due %v after its first claim, its wait is %v", d.Tried, short)
			}
		},
	},
	{
		Name: "released event is not counted",
		Rule: "an attempt that was not made, because the relay is ending, takes nothing from the schedule",
		run: func(t *trial) {
			q := t.open()
			t.enqueue(q, event("k", ""))
			t.settle(q, t.one(q, long, "k", 1), released)
			d := t.comes(q, "k")
			if d.Attempt != 1 || d.Tried != 0 {
				t.fatalf("after a release the claim is attempt %d, tried %v ago", d.Attempt, d.Tried)
			}
			t.settle(q, d, waiting(0))
			t.settle(q, t.comes(q, "k"), released)
			if d := t.comes(q, "k"); d.Attempt != 2 {
				t.fatalf("after a release the claim is attempt %d, want 2", d.Attempt)
			}
		},
	},
	{
		Name: "argument out of its limits is refused",
		Rule: "a call that breaks a rule of Claim, Outcome, a lease, Purge or Disable is store.ErrInvalid, and changes " +
			"nothing",
		run: func(t *trial) {
			q := t.open()
			t.enqueue(q, event("k", ""))
			for _, c := range []outbox.Claim{{Max: 0, Lease: long}, {Max: outbox.MaxClaim + 1, Lease: long}, {Max: 1},
				{Max: 1, Lease: 1 << 62},
				{Max: 1, Lease: long, PerDestination: -1}, {Max: 1, Lease: long, Room: map[string]int{"a": -1}}} {
				_, err := q.Claim(t.Context(), c)
				t.is(err, store.ErrInvalid, fmt.Sprintf("Claim of %+v", c))
			}
			d := t.one(q, long, "k", 1)
			for _, o := range []outbox.Outcome{{}, {Result: 9}, waiting(-1), waiting(1 << 62)} {
				_, err := q.Settle(t.Context(), outbox.Settlement{Lease: d.Lease, Outcome: sent},
					outbox.Settlement{Lease: d.Lease, Outcome: o})
				t.is(err, store.ErrInvalid, fmt.Sprintf("Settle with %+v", o))
			}
			for _, lease := range []time.Duration{0, -1, 1 << 62} {
				_, err := q.Extend(t.Context(), lease, d.Lease)
				t.is(err, store.ErrInvalid, fmt.Sprintf("Extend by %v", lease))
			}
			_, err := q.Purge(t.Context(), -1, 1)
			t.is(err, store.ErrInvalid, "Purge of a negative age")
			_, err = q.Purge(t.Context(), 0, 0)
			t.is(err, store.ErrInvalid, "Purge of nothing")
			long := strings.Repeat("a", max(outbox.MaxDestination, outbox.MaxReason)+1)
			t.is(q.Disable(t.Context(), long, died.Failure), store.ErrInvalid, "Disable of a long destination")
			t.is(q.Disable(t.Context(), "d", outbox.Failure{Reason: long}), store.ErrInvalid, "Disable for a long reason")
			found, err := q.Disabled(t.Context())
			t.ok(err, "Disabled")
			if len(found) > 0 {
				t.fatalf("a refused Disable has disabled %q", found[0].Destination)
			}
			t.settle(q, d, sent)
		},
	},
}

var leaseCases = []Case{
	{
		Name: "event of a dead relay comes again under its own id",
		Rule: "an event whose relay died, before or after the delivery, is claimed anew when its lease ends, with " +
			"its attempts and a higher fence",
		run: func(t *trial) {
			q := t.open()
			t.enqueue(q, event("k", "line"))
			first := t.one(q, short, "k", 1)
			second := t.comes(t.beside(q), "k")
			if second.Attempt != 2 || second.Lease.Fence <= first.Lease.Fence || second.Lease.Seq != first.Lease.Seq {
				t.fatalf("the second claim is attempt %d under %+v, after %+v",
					second.Attempt, second.Lease, first.Lease)
			}
		},
	},
	{
		Name: "stale owner changes nothing",
		Rule: "a relay whose event was claimed by another neither extends nor settles it",
		run: func(t *trial) {
			q := t.open()
			t.enqueue(q, event("k", ""))
			stale := t.one(q, short, "k", 1)
			d := t.comes(q, "k")
			t.lost(q, stale.Lease, "a stale lease")
			t.claim(q, long)
			t.settle(q, d, sent)
			t.lost(q, outbox.Lease{Seq: 1 << 40, Fence: 1}, "no event")

			t.enqueue(q, event("a", ""), event("b", ""))
			earlier := t.claim(q, long, "a", "b")
			t.settle(q, earlier[0], released)
			t.settle(q, earlier[1], released)
			now := t.claim(q, long, "a", "b")
			lost, err := q.Settle(t.Context(), outbox.Settlement{Lease: earlier[0].Lease, Outcome: died},
				outbox.Settlement{Lease: now[1].Lease, Outcome: sent})
			t.ok(err, "Settle")
			t.leases(lost, "Settle of a stale lease beside one of the event's present claim", earlier[0].Lease)
			t.settle(q, now[0], sent)
			t.stats(q, 0, 0)
		},
	},
	{
		Name: "ended lease is settled if nobody claimed the event",
		Rule: "a delivery that took longer than its lease still counts, unless another one has begun",
		run: func(t *trial) {
			q := t.open()
			t.enqueue(q, event("k", ""), event("marker", ""))
			d := t.claimed(q, outbox.Claim{Max: 1, Lease: long}, "k")[0]
			t.claimed(q, outbox.Claim{Max: 1, Lease: long}, "marker")
			t.extend(q, time.Millisecond, d.Lease) // only now, so that the second claim can't get the event
			before, err := q.Stats(t.Context())
			t.ok(err, "Stats")
			t.until("the lease ends", func() bool {
				now, err := q.Stats(t.Context())
				t.ok(err, "Stats")
				return now.Oldest-before.Oldest > 2*time.Millisecond // by the queue's own clock
			})
			t.settle(q, d, sent)
			t.stats(q, 1, 0)
		},
	},
	{
		Name: "extended lease goes on",
		Rule: "a delivery that takes longer than a lease keeps its event, as long as it renews",
		run: func(t *trial) {
			q := t.open()
			t.enqueue(q, event("kept", ""), event("marker", ""))
			ds := t.claim(q, short, "kept", "marker")
			t.extend(q, long, ds[0].Lease)
			t.comes(q, "marker") // its lease was the same
			t.claim(q, long)
			t.settle(q, ds[0], sent)
		},
	},
}
