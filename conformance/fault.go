package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/redo-go/redo/internal/wire"
)

var faultCases = []Case{{
	Slug: "fault-lost-response", Level: Must, Needs: []Need{NeedEffects}, gated: true,
	Sequence: "a request through a proxy that reads the whole response and resets the client; the same again",
	Rule:     "The retry is a replay: one effect, and the response is the one that was lost.",
	Why:      "A lost response is the reason for keys.",
	Sources:  []Source{draft("1", ""), draft("2.6", Should)},
	run: func(t *trial) {
		r := t.request(t.operation(), t.key(), t.payload())
		var seen, lost *answer
		for sent := 1; ; sent++ {
			t.pass(1)
			var err error
			if seen, lost, err = t.run.dialer.loseAnswer(t.ctx, r); err != nil {
				t.stop(Harness, "", "the proxy could not be started: "+err.Error())
			}
			if wait := t.shed(lost); wait > 0 {
				t.run.gate.hold(wait)
			} else if !lost.broke() || sent > 1 {
				break
			}
		}
		t.record("the client's side", "by a proxy that read the whole response and then reset the connection", r, seen)
		t.record("the target's side", "the same exchange, as the proxy read it", r, lost)
		if seen.err == nil || !lost.ok() {
			t.inconclusive("the response was not lost: the client saw %s, and the proxy %s", seen, lost)
		}
		a := t.retry("the retry", r)
		t.want(t.run.alike(lost, a), "the lost response, "+lost.String(), t.unlike(lost, a))
		t.effect(1)
	},
}, {
	Slug: "fault-client-timeout", Level: Must, Needs: []Need{NeedSlow}, gated: true,
	Sequence: "a slow request, given up while it runs; the same immediately, and until it succeeds; the same once more",
	Rule:     "The retry succeeds in the end, and the next one replays it: one effect.",
	Why:      "A client's timeout proves nothing about the server: the first request may still be paying.",
	Sources:  []Source{draft("2.6", Should), contract("the handler's context outlives the client's disconnect", Must)},
	run: func(t *trial) {
		takes := time.Duration(t.run.target.Slow.Takes)
		o := t.use(t.run.target.Slow.Operation)
		r := t.request(o, t.key(), t.payload())
		t.pass(1)
		x := t.run.dialer.open(t.ctx, r)
		_ = x.write(-1) // the retry shows the result
		headStart := time.NewTimer(takes / 4)
		defer headStart.Stop()
		select {
		case <-headStart.C:
		case <-t.ctx.Done():
		}
		t.record("given up", "the connection was closed before the response", r, x.abandon("the client gave up"))
		a := t.patiently("the retry", r, 4*takes+5*time.Second)
		if !t.want(a.ok(), "2xx in the end", a) {
			return
		}
		b := t.retry("the next retry", r)
		t.want(t.run.alike(a, b), "the same response again, "+a.String(), t.unlike(a, b))
		if t.fx() {
			t.effect(1)
			return
		}
		t.proven(o, a, b)
	},
}, {
	Slug: "fault-truncated-request", Level: Must, Needs: []Need{NeedEffects, NeedBody},
	Sequence: "a key and half of its body, closed; the whole request",
	Rule:     "Half a request has no effect and does not spoil its key: the retry succeeds, with one effect.",
	Why: "A key that was reserved, or a fingerprint that was taken, from half a body refuses the whole " +
		"one for good.",
	Sources: []Source{rfc("9112", "8", Must), contract("server flow: the body is read before the key is reserved",
		Must)},
	run: func(t *trial) {
		r := t.request(t.operation(), t.key(), t.payload())
		t.pass(1)
		x := t.run.dialer.open(t.ctx, r)
		_ = x.write(len(x.bytes) - (len(r.body)+1)/2) // the retry shows the result
		pause := time.NewTicker(100 * time.Millisecond)
		defer pause.Stop()
		moment := func() {
			select {
			case <-pause.C:
			case <-t.ctx.Done():
			}
		}
		moment() // for the server to start with the bytes that it has
		t.record("half a request", "the connection was closed in the middle of the body", r,
			x.abandon("the client broke off"))
		moment() // for the server to see the end: a retry that overtakes it proves nothing
		if n := t.effects(0); n != 0 {
			t.want(false, effectsText(0)+" of half a request", effectsText(n))
		}
		a := t.retry("the whole request", r)
		t.want(a.ok(), "2xx", a)
		t.effect(1)
	},
}, {
	Slug: "fault-5xx", Level: Must, Needs: []Need{NeedFault},
	Sequence: "a request that fails with a 5xx before its effect; the same twice; if the retry runs and effects are " +
		"counted, some rounds in which ten retries come together",
	Rule: "The failure has no effect, and the retries do as declared: they get the recorded error, " +
		"or run once and then replay.",
	Why: "Either is right, but a client that does not know which waits for ever, or gives up when " +
		"would have worked. Where a failed key is looked up and then taken, two retries pay twice.",
	Sources: []Source{draft("2.6", Should), stripe(), contract("5xx release the key", Must)},
	run: func(t *trial) {
		more := t.afterFault(t.once)
		for round := 1; more && (round == 1 || round <= rounds && time.Since(t.began) < moreFor); round++ {
			t.anew()
			more = t.afterFault(t.together)
		}
	},
}, {
	Slug: "fault-429", Level: Should, Needs: []Need{NeedLimit},
	Sequence: "a request that is refused with 429 and Retry-After; the same when that is over",
	Rule:     "A rate limit is no result: the retry runs, with one effect.",
	Why:      "A 429 that is replayed for a day is an outage for a patient client.",
	Sources: []Source{rfc("6585", "4", ""), rfc("9110", "10.2.3", ""),
		contract("408, 425, 429 and 5xx release the key", Must)},
	run: func(t *trial) {
		limited := t.variant(*t.run.target.Limited)
		p, key := t.payload(), t.key()
		a := t.once("the request that is limited", t.request(limited, key, p))
		if a.status != http.StatusTooManyRequests {
			t.inconclusive("the response to the target's rate limit was %s, and not 429", a)
		}
		if d, ok := wire.Hint(a.header, a.done, true); ok {
			if d > maxHint {
				t.skip("the target's Retry-After is %v, too long to wait for", d)
			}
			t.wait(d)
		}
		b := t.settled("the retry", t.request(limited.without(t.run.target.Limited.Headers), key, p))
		t.want(b.ok(), "2xx", b)
		t.effect(1)
	},
}}

// afterFault judges the retries of a request that fails; first sends the first one. It reports whether a race may show
// more: the retry ran as it should, and its effects are counted.
func (t *trial) afterFault(first func(label string, r request) *answer) bool {
	fault := t.run.target.Fault
	p, key := t.payload(), t.key()
	failing := t.variant(fault.Operation)
	a := t.afterError("the request that fails", t.request(failing, key, p), http.StatusServiceUnavailable, t.once)
	if a.status < 500 {
		t.inconclusive("the response to the target's fault was %s, and not a 5xx", a)
	}
	if t.fx() {
		n := t.effects(0)
		t.must(n == 0, effectsText(0)+" of the request that failed", effectsText(n))
	}
	r := t.request(failing.without(fault.Headers), key, p)
	b := t.afterError("the first retry", r, a.status, first)
	var c *answer
	if b.ok() {
		c = t.retry("the second retry", r)
	} else {
		c = t.afterError("the second retry", r, a.status, t.once)
	}
	after := t.run.profile.ServerErrors
	if fault.Replayed != nil {
		after = Executed
		if *fault.Replayed {
			after = Replayed
		}
	}
	replayed, executed := same(a, b) && same(a, c), b.ok() && t.run.alike(b, c)
	both := fmt.Sprintf("%s, and then %s", b, c)
	switch after {
	case Replayed:
		t.want(replayed, "the recorded error twice, "+a.String(), both)
	case Executed:
		t.want(executed, "a success, and then its replay", both)
	default:
		t.want(replayed || executed, "the recorded error twice, or a success and then its replay", both)
	}
	if t.fx() && b.ok() {
		t.effect(1)
	} else if t.fx() && !t.ended() {
		t.effect(0)
	}
	return t.fx() && b.ok() && !t.ended()
}

// together sends a retry many times together, and returns the first success. Without one it sends the retry again,
// alone.
func (t *trial) together(label string, r request) *answer {
	if a := t.racers(label, r); a != nil {
		return a
	}
	return t.once(label, r)
}

// racers sends a retry many times together, and returns the first success or nil. Of the others, only the number of
// effects is judged: a right server may refuse them for its load, or because one of them is running.
func (t *trial) racers(label string, r request) (first *answer) {
	t.pass(racers)
	for i, a := range t.run.dialer.race(t.ctx, slices.Repeat([]request{r}, racers)) {
		if t.run.profile.read(a); !a.ok() {
			continue
		}
		t.keep(fmt.Sprintf("%s, racer %d", label, i+1), "its last byte was sent together with the others'", r, a)
		if first == nil {
			first = a
		}
	}
	return first
}

// afterError sends a request whose response may be the error of a fault. It waits while the key is in flight, and after
// a 429. It waits after a 503 only if the fault has another status.
func (t *trial) afterError(label string, r request, fault int,
	send func(label string, r request) *answer) *answer {
	end := time.Now().Add(patienceInFlight)
	for again := firstPause; ; again *= 2 {
		a := send(label, r)
		wait, busy := a.busy(firstPause)
		mayRun := a.status == http.StatusServiceUnavailable && a.status != fault
		switch {
		case busy && a.status == http.StatusTooManyRequests && wait <= maxHint:
			t.shed(a)
			t.run.gate.hold(wait)
			send = t.once // many together might never get through
		case (t.run.profile.inFlight(a) || mayRun) && time.Now().Before(end):
			t.wait(again)
		default:
			return a
		}
	}
}

// settled sends a request until the response is none of "in flight", "too many" and 503. It stops after a few seconds.
func (t *trial) settled(label string, r request) *answer {
	end := time.Now().Add(lastRetry)
	for again := firstPause; ; again = min(2*again, time.Second) {
		a := t.once(label, r)
		wait, busy := a.busy(again)
		if !busy && !a.unavailable() && !t.run.profile.inFlight(a) || time.Now().Add(wait).After(end) {
			return a
		}
		t.wait(max(wait, again))
	}
}

// lastRetry bounds how long a request is retried while the target limits it or is running it.
const lastRetry = 6 * time.Second
