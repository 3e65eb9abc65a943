package conformance

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// crashCases test the death of handlers and servers. Each runs alone on the target.
var crashCases = []Case{{
	Slug: "fault-crash", Level: Must, Needs: []Need{NeedCrash}, alone: true,
	Sequence: "a request whose handler dies without a response; the same ten times together, again and again until its " +
		"lease is over",
	Rule: "The key is not in flight for ever: when the lease is over the retry gets another response, " +
		"and there is one effect at most.",
	Why: "A key that stays locked until its retention ends is a day of 409 for one crash. A lease that two retries take " +
		"over is a second payment.",
	Sources: []Source{contract("lease length and retention are two settings", Must)},
	run: func(t *trial) {
		crash := t.run.target.Crash
		p, key := t.payload(), t.key()
		dying := t.variant(crash.Operation)
		r := t.request(dying, key, p)
		t.pass(1)
		a := t.run.dialer.exchange(t.ctx, r)
		t.keep("the request whose handler dies", "", r, a)
		if a.ok() || a.refused() {
			t.inconclusive("the response to the target's crash was %s", a)
		}
		r = t.request(dying.without(crash.Headers), key, p)
		end := time.Now().Add(time.Duration(crash.Lease) + leaseMargin)
		for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
			b := t.racers("a retry", r)
			if b == nil {
				b = t.run.exchange(t.ctx, t.run.dialer, r)
				t.keep("a retry", "", r, b)
			}
			over := time.Now().After(end)
			// A process that died may need as long to restart. Its kernel may still accept a connection and reset it, or
			// a gateway responds in its place.
			if (b.err != nil || b.status >= http.StatusInternalServerError || t.run.profile.maybeRunning(b)) && !over {
				t.wait(pause)
				continue
			}
			if errors.Is(b.err, ErrUnreachable) {
				t.down(b.err, time.Duration(crash.Lease)+leaseMargin)
			}
			if b.err == nil {
				t.answered(b, "the retry")
			}
			if isGateways(b) {
				t.inconclusive("the target, or a gateway in front of it, was down %v after the crash: %s",
					time.Duration(crash.Lease)+leaseMargin, b)
			}
			if b.ok() && t.fx() {
				t.effect(1)
			}
			t.want(b.err == nil && !t.run.profile.maybeRunning(b),
				fmt.Sprintf("another response than in flight, %v after the "+
					"crash", crash.Lease), b)
			break
		}
	},
}, {
	Slug: "restart-durable", Level: Must, Needs: []Need{NeedRestart, NeedEffects}, gated: true, alone: true,
	Sequence: "a request; a restart; the same request",
	Rule:     "A record survives a restart: the second is a replay, with no further effect.",
	Why:      "Deployments are when requests get lost, and so when retries come.",
	Sources:  []Source{contract("the write before the answer is durable", Must)},
	run: func(t *trial) {
		r := t.request(t.operation(), t.key(), t.payload())
		a := t.accept("before the restart", r)
		t.restarted = true
		if err := t.run.restart(t.ctx); err != nil {
			t.stop(Harness, "", "the target could not be restarted: "+err.Error())
		}
		b := t.awake("after the restart", r)
		t.want(t.run.alike(a, b), "the same response again, "+a.String(), t.unlike(a, b))
		t.effect(1)
	},
}}

// down ends the trial of a target that accepts no connection after its crash. A process that is not up again shows
// nothing about its keys.
func (t *trial) down(err error, waited time.Duration) {
	if t.run.reachable(t.ctx) != nil {
		t.died(err)
	}
	t.inconclusive("the target accepted no connection within %v after the crash: a longer lease covers its restart",
		waited)
}

// awake sends the first request after a restart, until the target itself responds. A gateway in front of it accepts
// connections before the target does.
func (t *trial) awake(label string, r request) *answer {
	end := time.Now().Add(t.run.target.Restart.within())
	for pause := firstPause; ; pause = min(2*pause, time.Second) {
		a := t.try(label, r)
		switch {
		case (a.dropped() || isGateways(a)) && time.Now().Before(end):
			t.wait(pause)
		case t.run.profile.maybeRunning(a):
			return t.retry(label, r)
		default:
			t.answered(a, label)
			return a
		}
	}
}

// isGateways reports whether a response may be that of a gateway whose server is down.
func isGateways(a *answer) bool {
	switch a.status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// leaseMargin is the time after the lease's end in which a retry may still be refused. The server must first
// detect the crash.
const leaseMargin = 2 * time.Second
