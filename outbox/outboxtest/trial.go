package outboxtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redo-go/redo/outbox"
)

const (
	short = 40 * time.Millisecond // for what must run out
	long  = time.Hour             // for what must not

	// poll is the pause between two looks at the queue.
	poll = 2 * time.Millisecond
)

// patience bounds every wait for the queue. It is spent only when a rule is broken, as the suite's own tests do.
var patience = 30 * time.Second

// A reporter is what cases need of a *testing.T. It lets the suite's own tests run a case that is meant to fail.
type reporter interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
	FailNow()
	Skipf(format string, args ...any)
}

// A trial is one run of a case.
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

// claim claims up to 100 events, which must be those with the ids, in this order.
func (t *trial) claim(q Queue, lease time.Duration, ids ...string) []outbox.Delivery {
	t.Helper()
	return t.claimed(q, outbox.Claim{Max: 100, Lease: lease}, ids...)
}

func (t *trial) claimed(q Queue, c outbox.Claim, ids ...string) []outbox.Delivery {
	t.Helper()
	ds, err := q.Claim(t.Context(), c)
	t.ok(err, "Claim")
	got := []string{}
	for _, d := range ds {
		got = append(got, d.Event.ID)
	}
	if fmt.Sprint(got) != fmt.Sprint(ids) {
		t.fatalf("Claim returned %v, want %v", got, ids)
	}
	return ds
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

// comes waits until the event can be claimed, and nothing else.
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
	t.ok(q.Settle(t.Context(), d.Lease, o), "Settle")
}

// Outcomes.
var (
	sent     = outbox.Outcome{Result: outbox.Sent}
	released = outbox.Outcome{Result: outbox.Released}
	died     = outbox.Outcome{Result: outbox.Dead, Failure: outbox.Failure{Code: "VALIDATION.gone", Reason: "no such hook: ü"}}
)

func waiting(d time.Duration) outbox.Outcome {
	return outbox.Outcome{Result: outbox.Waiting, Wait: d, Failure: outbox.Failure{Code: "TRANSIENT.internal", Reason: "later"}}
}

// bury enqueues the event and makes a dead letter of it.
func (t *trial) bury(q Queue, ev outbox.Event) {
	t.Helper()
	t.enqueue(q, ev)
	t.settle(q, t.one(q, long, ev.ID, 1), died)
}

func (t *trial) letters(q Queue) []outbox.DeadLetter {
	t.Helper()
	var found []outbox.DeadLetter
	for l, err := range q.DeadLetters(t.Context()) {
		t.ok(err, "DeadLetters")
		found = append(found, l)
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
		t.fatalf("Stats says that the oldest event waits for %v, and %d wait", st.Oldest, waiting)
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
