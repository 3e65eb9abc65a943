package conformance

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// try sends a request. There may be no response.
func (t *trial) try(label string, r request) *answer {
	return t.record(label, "", r, t.run.exchange(t.ctx, t.run.dialer, r))
}

// send sends a request. It ends the trial unless there is a response.
func (t *trial) send(label string, r request) *answer {
	a := t.try(label, r)
	t.answered(a, label)
	return a
}

// once sends a request whose temporary refusal is expected, so it does not repeat the request.
func (t *trial) once(label string, r request) *answer {
	t.pass(1)
	a := t.record(label, "", r, t.run.despiteDrop(t.ctx, t.run.dialer, r, t.run.dialer.exchange(t.ctx, r)))
	t.answered(a, label)
	return a
}

// pass waits until n requests may be sent together.
func (t *trial) pass(n int) {
	if !t.run.gate.pass(t.ctx, n) {
		panic(stopped{}) // the runner reports the end of the run
	}
}

func (t *trial) answered(a *answer, label string) {
	switch {
	case a.dropped() && t.c.Slug != slugBaseline:
		twice := ""
		if a.resent {
			twice = ", twice"
		}
		t.inconclusive("%s: the connection was closed before a response%s, and a dropped connection is no verdict", label,
			twice)
	case a.err != nil:
		t.stop(heavier(t.c.Level.verdict(), Warn), "a response to "+label, a.String())
	case a.overload && t.c.Slug != slugBaseline:
		t.inconclusive("the target refused %s for its load, again and again: %s; a lower --rate may help", label, a)
	}
}

// accept sends a request that must succeed for the case to begin, although the case does not judge it.
func (t *trial) accept(label string, r request) *answer {
	a := t.send(label, r)
	if !a.ok() {
		t.inconclusive("the response to %s, %s %s, was %s; the case needs a success to begin with", label, r.method,
			t.run.address(r), a)
	}
	return a
}

func heavier(a, b Verdict) Verdict {
	if a.weight() < b.weight() {
		return b
	}
	return a
}

// race sends requests together. It sends the requests that the target refuses because of load again, one by one.
func (t *trial) race(label string, requests []request) []*answer {
	t.pass(len(requests))
	answers := t.run.dialer.race(t.ctx, requests)
	for i, a := range answers {
		answers[i] = t.run.patiently(t.ctx, t.run.dialer, requests[i], a)
	}
	for i, a := range answers {
		t.record(fmt.Sprintf("%s %d", label, i+1), "its last byte was sent together with the others'", requests[i], a)
	}
	return answers
}

// record records an exchange. It ends the trial if the run has ended or the target has died.
func (t *trial) record(label, delivery string, r request, a *answer) *answer {
	t.keep(label, delivery, r, a)
	if t.ctx.Err() != nil {
		panic(stopped{}) // the runner reports the end of the run
	}
	if errors.Is(a.err, ErrUnreachable) {
		t.unreachable(a.err)
	}
	return a
}

// unreachable ends the trial. It ends the run too unless the target soon responds again.
func (t *trial) unreachable(err error) {
	if t.run.reachable(t.ctx) == nil {
		t.stop(Harness, "", "a connection to the target could not be made, and another could: "+err.Error())
	}
	t.died(err)
}

// died ends the run, whose target accepts no connection any more.
func (t *trial) died(err error) {
	if t.ctx.Err() == nil {
		t.run.halt(StopUnreachable, diedOf(err))
	}
	t.stop(Harness, "", died)
}

// died is the reason for a run that lost its target.
const died = "the target died during the run"

func diedOf(err error) error {
	return maskedError{"conformance: " + died + strings.TrimPrefix(err.Error(), ErrUnreachable.Error()), err}
}

// comeback is the maximum time that a target may disappear after it was reachable.
const comeback = 2 * time.Second

// keep records an exchange with any result, and the effects that it may have.
func (t *trial) keep(label, delivery string, r request, a *answer) {
	t.show(label, delivery, r, a)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tally.add(t.run.target, r, a)
	t.sent++
	if t.c.Group() == "ctl" && (t.c.Slug != slugOracle || t.sent == 1) { // the oracle's other key is reused
		t.run.remember(r, a, t)
	}
}

// show records an exchange as evidence.
func (t *trial) show(label, delivery string, r request, a *answer) {
	t.run.profile.read(a)
	if a.refusals > 0 {
		delivery = joined(delivery, fmt.Sprintf("after %s of the target to serve it under its load", plural(a.refusals,
			"refusal")))
	}
	if a.resent {
		delivery = joined(delivery, "sent again, because the connection of the first request broke")
	}
	a.excerpt = t.run.mask.describe(a.content())
	x := newExchange(label, delivery, r, a, t.began, t.run.mask)
	t.mu.Lock()
	defer t.mu.Unlock()
	x.Curl = t.curl(r)
	t.exchanges = append(t.exchanges, x)
}

func joined(a, b string) string {
	if a == "" {
		return b
	}
	return a + ", " + b
}

// retry sends a request again whose response has come. The server may record the response a moment later.
func (t *trial) retry(label string, r request) *answer {
	return t.patiently(label, r, patienceInFlight)
}

// patiently repeats a request while it is refused because the first one is running, or with a 503 without Retry-After.
// It returns the last response.
func (t *trial) patiently(label string, r request, atMost time.Duration) *answer {
	end := time.Now().Add(atMost)
	for again := 20 * time.Millisecond; ; again = min(2*again, 500*time.Millisecond) {
		a := t.send(label, r)
		if !t.run.profile.maybeRunning(a) && !a.unavailable() || time.Now().After(end) {
			return a
		}
		t.wait(again)
	}
}
