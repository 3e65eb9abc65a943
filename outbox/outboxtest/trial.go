package outboxtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redo-go/redo/outbox"
)

const (
	short = 40 * time.Millisecond // for leases and waits that must end
	long  = time.Hour             // for leases and waits that must not end

	// poll is the pause between two polls of the queue.
	poll = 2 * time.Millisecond
)

// patience bounds every wait for the queue. It runs out only when a rule is broken, as in the suite's own tests.
var patience = 30 * time.Second

// reporter is the part of *testing.T that cases use. It lets the suite's own tests run a case that must fail.
type reporter interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
	FailNow()
	Skipf(format string, args ...any)
}

// trial is one run of a case.
type trial struct {
	reporter
	t    *testing.T
	rule string
	h    Harness
}

func (t *trial) fatalf(format string, args ...any) {
	t.Helper()
	t.Errorf("%s\nthe rule: %s", fmt.Sprintf(format, args...), t.rule)
	t.FailNow()
}

func (t *trial) open() Queue            { return t.h.Open(t.t) }
func (t *trial) beside(q Queue) Queue   { return t.h.Beside(t.t, q) }
func (t *trial) begin(q Queue) Tx       { return t.h.Begin(t.t, q) }
func event(id, key string) outbox.Event { return outbox.Event{ID: id, OrderingKey: key} }

// to returns an event for a destination, without an ordering key.
func to(destination, id string) outbox.Event { return outbox.Event{ID: id, Destination: destination} }

// enqueue commits the events in one transaction.
func (t *trial) enqueue(q Queue, events ...outbox.Event) {
	t.Helper()
	tx := t.begin(q)
	for _, ev := range events {
		t.write(tx, ev)
	}
	t.ok(tx.Commit(t.Context()), "Commit")
}

func (t *trial) write(tx Tx, ev outbox.Event) string {
	t.Helper()
	id, err := tx.Enqueue(t.Context(), ev)
	t.ok(err, "Enqueue")
	if ev.ID != "" && id != ev.ID {
		t.fatalf("Enqueue of the event %q returned the id %q", ev.ID, id)
	}
	return id
}

// claim claims up to 100 events, which must be those with the ids. The order counts among events without an ordering
// key.
func (t *trial) claim(q Queue, lease time.Duration, ids ...string) []outbox.Delivery {
	t.Helper()
	return t.claimed(q, outbox.Claim{Max: 100, Lease: lease}, ids...)
}

// claimed claims events. The first one of each line must be among ids, and each id must be claimed. claimed releases
// other events of these lines. So a case is the same for a queue that takes one event of a line.
func (t *trial) claimed(q Queue, c outbox.Claim, ids ...string) []outbox.Delivery {
	t.Helper()
	ds, err := q.Claim(t.Context(), c)
	t.ok(err, "Claim")
	var more []outbox.Settlement
	all, got, heads := []string{}, []outbox.Delivery{}, map[[2]string]bool{}
	for _, d := range ds {
		all = append(all, d.Event.ID)
		line := [2]string{d.Event.Destination, d.Event.OrderingKey}
		if line[1] != "" && heads[line] && !slices.Contains(ids, d.Event.ID) {
			more = append(more, outbox.Settlement{Lease: d.Lease, Outcome: released})
			continue
		}
		heads[line] = true
		got = append(got, d)
	}
	place := func(d outbox.Delivery) int { return slices.Index(ids, d.Event.ID) }
	if len(got) != len(ids) || slices.ContainsFunc(got, func(d outbox.Delivery) bool { return place(d) < 0 }) {
		t.fatalf("Claim returned %v, want %v", all, ids)
	}
	last := -1
	for _, d := range got {
		if d.Event.OrderingKey == "" {
			if place(d) < last {
				t.fatalf("Claim returned %v, want the order %v", all, ids)
			}
			last = place(d)
		}
	}
	if len(more) > 0 {
		lost, err := q.Settle(t.Context(), more...)
		t.ok(err, "Settle")
		t.leases(lost, "the release of the other events of a line")
	}
	slices.SortFunc(got, func(a, b outbox.Delivery) int { return place(a) - place(b) })
	return got
}

// leases checks the leases that a call returned as lost.
func (t *trial) leases(lost []outbox.Lease, call string, want ...outbox.Lease) {
	t.Helper()
	if len(lost) != len(want) || slices.ContainsFunc(want, func(l outbox.Lease) bool {
		return !slices.Contains(lost, l)
	}) {
		t.fatalf("%s returned the lost leases %+v, want %+v", call, lost, want)
	}
}

// lost checks that the lease of d is lost to Settle with every outcome, and to Extend.
func (t *trial) lost(q Queue, l outbox.Lease, what string) {
	t.Helper()
	for _, o := range []outbox.Outcome{sent, waiting(0), died, released} {
		lost, err := q.Settle(t.Context(), outbox.Settlement{Lease: l, Outcome: o})
		t.ok(err, "Settle")
		t.leases(lost, "Settle of "+what, l)
	}
	lost, err := q.Extend(t.Context(), long, l)
	t.ok(err, "Extend")
	t.leases(lost, "Extend of "+what, l)
}

func (t *trial) extend(q Queue, d time.Duration, l outbox.Lease) {
	t.Helper()
	lost, err := q.Extend(t.Context(), d, l)
	t.ok(err, "Extend")
	t.leases(lost, "Extend")
}

// one claims the one event that is due.
func (t *trial) one(q Queue, lease time.Duration, id string, attempt int) outbox.Delivery {
	t.Helper()
	d := t.claim(q, lease, id)[0]
	if d.Attempt != attempt {
		t.fatalf("the claim of %q is attempt %d, want %d", id, d.Attempt, attempt)
	}
	return d
}

// comes waits until the event can be claimed. It fails if another event can be claimed.
func (t *trial) comes(q Queue, id string) outbox.Delivery {
	t.Helper()
	var d outbox.Delivery
	t.until(fmt.Sprintf("%q is due", id), func() bool {
		ds, err := q.Claim(t.Context(), outbox.Claim{Max: 1, Lease: long})
		t.ok(err, "Claim")
		if len(ds) > 0 {
			d = ds[0]
		}
		return len(ds) > 0
	})
	if d.Event.ID != id {
		t.fatalf("Claim returned %q, want %q", d.Event.ID, id)
	}
	return d
}

func (t *trial) settle(q Queue, d outbox.Delivery, o outbox.Outcome) {
	t.Helper()
	t.settleAll(q, outbox.Settlement{Lease: d.Lease, Outcome: o})
}

func (t *trial) settleAll(q Queue, ended ...outbox.Settlement) {
	t.Helper()
	lost, err := q.Settle(t.Context(), ended...)
	t.ok(err, "Settle")
	t.leases(lost, "Settle")
}

// These are the outcomes.
var (
	sent     = outbox.Outcome{Result: outbox.Sent}
	released = outbox.Outcome{Result: outbox.Released, Wait: long} // due immediately all the same
	died     = outbox.Outcome{
		Result: outbox.Dead, Failure: outbox.Failure{Code: "VALIDATION.gone", Reason: "no such hook: ü"},
	}
)

func waiting(d time.Duration) outbox.Outcome {
	return outbox.Outcome{
		Result: outbox.Waiting, Wait: d, Failure: outbox.Failure{Code: "TRANSIENT.internal", Reason: "later"},
	}
}

// bury enqueues the event and turns it into a dead letter.
func (t *trial) bury(q Queue, ev outbox.Event) {
	t.Helper()
	t.enqueue(q, ev)
	t.settle(q, t.one(q, long, ev.ID, 1), died)
}

// events lists the selected events. They must be those with the ids, in this order.
func (t *trial) events(q Queue, s outbox.Selection, ids ...string) []outbox.Entry {
	t.Helper()
	found, got := []outbox.Entry{}, []string{}
	for e, err := range q.Events(t.Context(), s) {
		t.ok(err, "Events")
		found, got = append(found, e), append(got, e.Event.ID)
	}
	if !slices.Equal(got, ids) {
		t.fatalf("Events of %+v lists %v, want %v", s, got, ids)
	}
	return found
}

func (t *trial) stats(q Queue, waiting, dead int) outbox.Stats {
	t.Helper()
	st, err := q.Stats(t.Context())
	t.ok(err, "Stats")
	if st.Waiting != waiting || st.Dead != dead {
		t.fatalf("Stats counts %d waiting and %d dead, want %d and %d", st.Waiting, st.Dead, waiting, dead)
	}
	if (st.Oldest > 0) != (waiting > 0) {
		t.fatalf("Stats reports %v as the age of the oldest waiting event, and %d events wait", st.Oldest, waiting)
	}
	return st
}

func (t *trial) ok(err error, call string) {
	t.Helper()
	if err != nil {
		t.fatalf("%s: %v", call, err)
	}
}

func (t *trial) is(err, want error, call string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.fatalf("%s: error %v, want one that is %q", call, err, want)
	}
}

// until polls until the condition holds.
func (t *trial) until(what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for start := time.Now(); !holds(); <-tick.C {
		if time.Since(start) > patience {
			t.fatalf("not within %v: %s", patience, what)
		}
	}
}
