package conformance

import (
	"errors"
	"fmt"
	"time"
)

// crashCases are about handlers and servers that die. They have the target for themselves.
var crashCases = []Case{{
	Slug: "fault-crash", Level: Must, Needs: []Need{NeedCrash}, alone: true,
	Sequence: "K,B1 whose handler dies without an answer; K,B1 until its lease is over",
	Rule:     "The key is not in flight for ever: when the lease is over the retry gets another answer, and E<=1.",
	Why:      "A key that stays locked until its retention ends is a day of 409 for one crash.",
	Sources:  []Source{contract("lease length and retention are two settings", Must)},
	run: func(t *trial) {
		crash := t.run.target.Crash
		p, key := t.payload(), t.key()
		dying := t.variant(crash.Operation)
		r := t.request(dying, key, p)
		a := t.run.dialer.exchange(t.ctx, r)
		t.keep("the request whose handler dies", "", r, a)
		if a.ok() || a.refused() {
			t.inconclusive("the target's crash answered %s", a)
		}
		r = t.request(dying.without(crash.Headers), key, p)
		end := time.Now().Add(time.Duration(crash.Lease) + leaseMargin)
		for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
			b := t.run.dialer.exchange(t.ctx, r)
			t.keep("a retry", "", r, b)
			over := time.Now().After(end)
			// A process that died may take as long to come back, and its kernel may still take a connection in and reset it.
			if (b.err != nil || t.run.profile.inFlight(b)) && !over {
				t.wait(pause)
				continue
			}
			if !errors.Is(b.err, ErrUnreachable) {
				t.answered(b, "the retry")
			}
			t.want(b.err == nil && !t.run.profile.inFlight(b), fmt.Sprintf("another answer than in flight, %v after the crash", crash.Lease), b)
			break
		}
		if t.fx() {
			n := t.effects()
			t.want(n <= 1, "at most "+effectsText(1), effectsText(n))
		}
	},
}, {
	Slug: "restart-durable", Level: Must, Needs: []Need{NeedRestart, NeedEffects}, gated: true, alone: true, after: replays,
	Sequence: "K,B1; restart; K,B1",
	Rule:     "A record survives a restart: the second is a replay, E=1.",
	Why:      "Deployments are when requests get lost, and so when retries come.",
	Sources:  []Source{contract("the write before the answer is durable", Must)},
	run: func(t *trial) {
		r := t.request(t.operation(), t.key(), t.payload())
		a := t.accept("before the restart", r)
		if err := t.run.restart(t.ctx); err != nil {
			t.stop(Harness, "", "the target could not be restarted: "+err.Error())
		}
		b := t.patiently("after the restart", r, 2*time.Second)
		t.want(same(a, b), "the same response again, "+a.String(), b)
		t.effect(1)
	},
}}

// leaseMargin is how much later than the lease's end a retry may still be refused: the crash has to be noticed first.
const leaseMargin = 2 * time.Second
