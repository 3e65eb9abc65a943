package conformance

import (
	"fmt"
	"net/http"
	"time"

	"github.com/redo-go/redo/internal/wire"
)

// maxHint is the longest Retry-After that is waited for.
const maxHint = 10 * time.Second

var faultCases = []Case{{
	Slug: "fault-lost-response", Level: Must, Needs: []Need{NeedEffects}, gated: true, after: replays,
	Sequence: "K,B1 through a proxy that reads the whole response and resets the client; K,B1",
	Rule:     "The retry is a replay: E=1, and the response is the one that was lost.",
	Why:      "The answer that gets lost is what keys were made for.",
	Sources:  []Source{draft("1", ""), draft("2.6", Should)},
	run: func(t *trial) {
		r := t.request(t.operation(), t.key(), t.payload())
		seen, lost, err := t.run.dialer.loseAnswer(t.ctx, r)
		if err != nil {
			t.stop(Harness, "", "the proxy could not be started: "+err.Error())
		}
		t.record("what the client saw", "by a proxy that read the whole response and then reset the connection", r, seen)
		t.record("what the proxy had read", "the same exchange, on the target's side", r, lost)
		if seen.err == nil || !lost.ok() {
			t.inconclusive("the response was not lost: the client saw %s, and the proxy %s", seen, lost)
		}
		a := t.patiently("the retry", r, 2*time.Second)
		t.want(same(lost, a), "the lost response, "+lost.String(), a)
		t.effect(1)
	},
}, {
	Slug: "fault-client-timeout", Level: Must, Needs: []Need{NeedSlow}, gated: true, after: replays,
	Sequence: "K,B1, slow, given up while it runs; K,B1 at once, and until it succeeds; K,B1",
	Rule:     "The retry succeeds in the end, and the next one replays it: E=1.",
	Why:      "A client's timeout says nothing about the server: the first request may still be paying.",
	Sources:  []Source{draft("2.6", Should), contract("the handler's context outlives the client's disconnect", Must)},
	run: func(t *trial) {
		takes := time.Duration(t.run.target.Slow.Takes)
		o := t.variant(t.run.target.Slow.Operation)
		r := t.request(o, t.key(), t.payload())
		x := t.run.dialer.open(t.ctx, r)
		_ = x.write(-1) // the retry tells
		headStart := time.NewTimer(takes / 4)
		defer headStart.Stop()
		select {
		case <-headStart.C:
		case <-t.ctx.Done():
		}
		t.record("given up", "the connection was closed before the answer", r, x.abandon("the client gave up"))
		a := t.patiently("the retry", r, 4*takes+5*time.Second)
		if !t.want(a.ok(), "2xx in the end", a) {
			return
		}
		b := t.send("the next retry", r)
		t.want(same(a, b), "the same response again", b)
		if t.fx() {
			t.effect(1)
			return
		}
		t.proven(o, a, b)
	},
}, {
	Slug: "fault-truncated-request", Level: Must, Needs: []Need{NeedEffects, NeedBody},
	Sequence: "K and half of B1, closed; K,B1",
	Rule:     "Half a request has no effect and does not spoil its key: the retry succeeds, E=1.",
	Why:      "A key that was reserved, or a fingerprint that was taken, from half a body refuses the whole one for good.",
	Sources:  []Source{rfc("9112", "8", Must), contract("server flow: the body is read before the key is reserved", Must)},
	run: func(t *trial) {
		r := t.request(t.operation(), t.key(), t.payload())
		x := t.run.dialer.open(t.ctx, r)
		_ = x.write(len(x.bytes) - (len(r.body)+1)/2) // the retry tells
		pause := time.NewTicker(100 * time.Millisecond)
		defer pause.Stop()
		moment := func() {
			select {
			case <-pause.C:
			case <-t.ctx.Done():
			}
		}
		moment() // for the server to begin with what it has
		t.record("half a request", "the connection was closed in the middle of the body", r, x.abandon("the client broke off"))
		moment() // for the server to see the end: a retry that overtakes it shows nothing
		if n := t.effects(); n != 0 {
			t.want(false, effectsText(0)+" of half a request", effectsText(n))
		}
		a := t.patiently("the whole request", r, 2*time.Second)
		t.want(a.ok(), "2xx", a)
		t.effect(1)
	},
}, {
	Slug: "fault-5xx", Level: Must, Needs: []Need{NeedFault}, after: replays,
	Sequence: "K,B1 that fails with a 5xx before its effect; K,B1; K,B1",
	Rule:     "E<=1, and the retries do what is declared: they get the recorded error, or run and then replay.",
	Why:      "Either is right, but a client that does not know which waits for ever, or gives up what would have worked.",
	Sources:  []Source{draft("2.6", Should), stripe(), contract("5xx release the key", Must)},
	run: func(t *trial) {
		fault := t.run.target.Fault
		p, key := t.payload(), t.key()
		failing := t.variant(fault.Operation)
		a := t.send("the request that fails", t.request(failing, key, p))
		if a.status < 500 {
			t.inconclusive("the target's fault was answered %s, and not with a 5xx", a)
		}
		r := t.request(failing.without(fault.Headers), key, p)
		b := t.patiently("the first retry", r, 2*time.Second)
		c := t.patiently("the second retry", r, 2*time.Second)
		after := t.run.profile.ServerErrors
		if fault.Replayed != nil {
			after = Executed
			if *fault.Replayed {
				after = Replayed
			}
		}
		replayed, executed := same(a, b) && same(a, c), b.ok() && same(b, c)
		both := fmt.Sprintf("%s, and then %s", b, c)
		switch after {
		case Replayed:
			t.want(replayed, "the recorded error twice, "+a.String(), both)
		case Executed:
			t.want(executed, "a success, and then its replay", both)
		default:
			t.want(replayed || executed, "the recorded error twice, or a success and then its replay", both)
		}
		if t.fx() {
			n := t.effects()
			t.want(n <= 1, "at most "+effectsText(1), effectsText(n))
		}
	},
}, {
	Slug: "fault-429", Level: Should, Needs: []Need{NeedLimit},
	Sequence: "K,B1 that is refused with 429 and Retry-After; K,B1 when that is over",
	Rule:     "A rate limit is no result: the retry runs, E=1.",
	Why:      "A 429 that is replayed for a day is an outage for whoever was patient.",
	Sources:  []Source{rfc("6585", "4", ""), rfc("9110", "10.2.3", ""), contract("408, 425, 429 and 5xx release the key", Must)},
	run: func(t *trial) {
		limited := t.variant(*t.run.target.Limited)
		p, key := t.payload(), t.key()
		a := t.send("the request that is limited", t.request(limited, key, p))
		if a.status != http.StatusTooManyRequests {
			t.inconclusive("the target's rate limit answered %s, and not 429", a)
		}
		if d, ok := wire.Hint(a.header, a.done, true); ok {
			if d > maxHint {
				t.skip("the target asks to come back in %v, longer than is waited for", d)
			}
			t.wait(d)
		}
		b := t.patiently("the retry", t.request(limited.without(t.run.target.Limited.Headers), key, p), 2*time.Second)
		t.want(b.ok(), "2xx", b)
		t.effect(1)
	},
}}
