package conformance

import (
	"fmt"
	"slices"
	"time"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

// These constants bound how often independent-keys looks for a response that overtakes a slow request. One such
// response is enough. A busy machine delays all requests. Keys block each other only if GETs mostly overtake the
// slow request and other keys never do.
const (
	overtakings = 5
	mostly      = 3
)

// overlaps is the number of attempts to run two requests at the same time. A busy machine may keep them apart.
const overlaps = 3

// These are the numbers of requests and rounds of conc-one-effect. A server that checks and then acts fails only
// by chance. The faster the server, the more rounds are needed, and the less each round costs. The case late-replay
// waits for longer than moreFor, so that these rounds do not make a run longer.
const (
	racers     = 10
	rounds     = 8
	moreRounds = 100
	moreFor    = 1500 * time.Millisecond
)

// overlapping sends a slow request and a second one while the first runs. It returns both responses once the
// client saw the overlap: the second was sent before the first response arrived. On a busy machine it repeats with
// another pair.
func (t *trial) overlapping(pair func() (slow, meanwhile request), label string) (first, second *answer) {
	for try, refused := 0, 0; try < overlaps; {
		slow, meanwhile := pair()
		first, second = t.meanwhile(slow, meanwhile, label)
		lost := first.dropped() || second.dropped() || first.unavailable() || second.unavailable()
		if try++; try < overlaps && lost {
			t.anew() // a second sending would overlap nothing
			continue
		}
		t.answered(first, "the slow request")
		t.answered(second, label)
		if _, busy := second.busy(0); busy && first.ok() {
			// The target refuses the second request every time, so this is its way to refuse a duplicate.
			if refused++; refused == overlaps {
				return first, second
			}
		}
		if wait := max(t.shed(first), t.shed(second)); wait > 0 {
			t.run.gate.hold(wait)
			t.anew()
			try--
			continue
		}
		if second.sent.Before(first.done) {
			return first, second
		}
		t.anew()
	}
	t.inconclusive("the slow operation responded after %v, before anything else could be sent: it is to take %v",
		first.done.Sub(first.sent).Round(time.Millisecond), t.run.target.Slow.Takes)
	return nil, nil
}

// shed returns the time to wait if the target refused a request of a pair because of its load. Such a pair proves
// nothing.
func (t *trial) shed(a *answer) time.Duration {
	wait, busy := a.busy(firstPause)
	if !busy {
		return 0
	}
	if t.shedding += wait; wait > maxHint || t.shedding > maxPatience {
		t.inconclusive("the target refused one of two requests for its load, again and again: %s; a lower --rate "+
			"may help", a)
	}
	return wait
}

// meanwhile sends one request, and a second one after a quarter of the slow operation's time.
func (t *trial) meanwhile(slow, meanwhile request, label string) (first, second *answer) {
	t.pass(2)
	x := t.run.dialer.open(t.ctx, slow)
	_ = x.write(-1) // finish reports the error
	done := make(chan *answer, 1)
	go func() { done <- x.finish() }()
	headStart := time.NewTimer(time.Duration(t.run.target.Slow.Takes) / 4)
	defer headStart.Stop()
	select {
	case <-headStart.C:
	case <-t.ctx.Done():
	}
	second = t.run.dialer.exchange(t.ctx, meanwhile)
	first = <-done
	t.record("the slow request", "", slow, first)
	t.record(label, "while the slow request was running", meanwhile, second)
	return first, second
}

// duplicate sends a slow request twice at the same time. It repeats unless the second is refused, because a busy
// machine may run the two one after the other. The network decides the order of arrival, so duplicate returns the
// refused response second.
func (t *trial) duplicate() (o Operation, winner, other *answer) {
	o = t.use(t.run.target.Slow.Operation)
	for try := 0; try < overlaps && (other == nil || !other.refused()); try++ {
		t.anew()
		winner, other = t.overlapping(func() (request, request) {
			r := t.request(o, t.key(), t.payload())
			return r, r
		}, "the duplicate")
		if winner.refused() {
			winner, other = other, winner
		}
	}
	return o, winner, other
}

var concurrencyCases = []Case{{
	Slug: "conc-one-effect", Level: Must, Needs: []Need{NeedEffects},
	Sequence: "one request ten times together, with the last byte of each held back until all others are " +
		"sent; several rounds, and one with the slow operation where there is one",
	Rule: "One effect for each key. Responses are one and the same 2xx, or refusals of a key in flight.",
	Why: "Check-then-insert without a lock passes every sequential test, and pays twice when a phone " +
		"retries over two networks.",
	Sources: []Source{draft("2.6", Should), contract("reserve is atomic", Must)},
	run: func(t *trial) {
		for round := 1; round <= rounds || round <= moreRounds && time.Since(t.began) < moreFor; round++ {
			t.raceOnce(t.operation(), fmt.Sprintf("round %d, racer", round))
		}
		if t.run.target.Slow != nil {
			t.raceOnce(t.use(t.run.target.Slow.Operation), "slow racer")
		}
	},
}, {
	Slug: "conc-inflight", Level: Should, Needs: []Need{NeedSlow}, gated: true,
	Sequence: "a slow request; the same while it runs",
	Rule:     "The duplicate is refused as in flight (409 or 425), or waits and gets the first one's response.",
	Why:      "A client that times out and retries while the first request runs is the usual case, not a rare one.",
	Sources:  []Source{draft("2.6", Should), draft("2.7", Should), contract("same key, still running", Must)},
	run: func(t *trial) {
		o, winner, other := t.duplicate()
		t.want(winner.ok(), "2xx for one of them", winner)
		if t.run.profile.inFlight(other) {
			t.coded(other, taxonomy.InFlight)
			t.effect(1)
			return
		}
		if other.refused() {
			t.effect(1)
		}
		if t.want(t.run.alike(winner, other), list(t.run.profile.InFlight)+", or the first one's response",
			t.unlike(winner, other)) {
			t.proven(o, winner, other)
		}
	},
}, {
	Slug: "conc-retry-after", Level: Should, Needs: []Need{NeedSlow},
	Sequence: "a slow request; the same while it runs",
	Rule:     "A refusal of a key in flight has a readable Retry-After.",
	Why:      "Without it clients guess, and come back together.",
	Sources:  []Source{rfc("9110", "10.2.3", May), contract("same key, still running", Must)},
	run: func(t *trial) {
		_, _, other := t.duplicate()
		if !t.run.profile.inFlight(other) {
			t.skip("the target did not refuse the duplicate: %s", other)
		}
		_, ok := wire.Hint(other.header, other.done, false)
		t.want(ok, "a Retry-After of seconds or an HTTP date", fmt.Sprintf("Retry-After %q",
			other.header.Values("Retry-After")))
	},
}, {
	Slug: "conc-mismatch", Level: Must, Needs: []Need{NeedSlow, NeedPayloads, NeedOnePayload},
	Sequence: "a slow request; another payload under its key while it runs",
	Rule:     "Another payload is refused with a 4xx also while the first one is running, and has no effect.",
	Why:      "Where the payload is compared only with finished records, both run.",
	Sources:  []Source{draft("2.6", Should), draft("2.7", Should), contract("same key, other payload", Must)},
	run: func(t *trial) {
		first, second := t.otherMeanwhile()
		t.want(first.ok(), "2xx for one of the two", first)
		if t.effect(1) && second.ok() && t.run.ignoresPayload {
			t.block(slugMismatch, "the target does not compare payloads")
		}
		t.want(second.refused(), "4xx for the other", second)
	},
}, {
	Slug: "conc-mismatch-wins", Level: Should, Needs: []Need{NeedSlow, NeedPayloads, NeedFirst},
	Sequence: "a slow request; another payload under its key while it runs",
	Rule:     "Another payload is refused as a mismatch, not as in flight.",
	Why:      "A client that waits would wait for nothing: the final response is the mismatch.",
	Sources:  []Source{contract("a mismatch wins over in flight", Must)},
	run: func(t *trial) {
		_, second := t.otherMeanwhile()
		if !second.refused() {
			t.block("conc-mismatch", "neither was refused")
		}
		t.want(t.run.profile.mismatch(second), "status "+list(t.run.profile.Mismatch)+", not in flight", second)
	},
}, {
	Slug: "independent-keys", Level: Should, Needs: []Need{NeedSlow}, alone: true,
	Sequence: "a slow request; another key meanwhile",
	Rule: "A request that runs blocks its own key alone: another key's response comes first. Where a " +
		"GET without a key overtakes it, waiting is a failure.",
	Why:     "One lock for all keys makes one slow provider everybody's.",
	Sources: []Source{contract("a key means nothing outside its scope", Should)},
	run: func(t *trial) {
		var second *answer
		slow := t.variant(t.run.target.Slow.Operation)
		alone := t.accept("the slow request alone, to learn its time", t.request(slow, t.key(), t.payload()))
		takes := alone.done.Sub(alone.sent)
		getsFree := 0
		for range overtakings {
			var ok bool
			if ok, second = t.overtakes("another key", t.request(t.operation(), t.key(), t.payload()), takes); ok {
				return
			}
			if _, busy := second.busy(0); busy {
				t.skip("the target refuses a second request for its load: %s", second)
			}
			if get := t.run.target.Get; get != nil {
				if free, _ := t.overtakes("a GET without a key", t.bare(t.variant(*get), t.payload()), takes); free {
					getsFree++
				}
			}
		}
		waits := fmt.Sprintf("%s, with it or after it", second)
		switch {
		case t.run.target.Get == nil:
			t.want(false, "2xx before the slow request's response", waits)
		case getsFree < mostly:
			t.skip("requests without a key wait for a slow one too: the target serves one request at a time")
		default:
			t.must(false, "2xx before the slow request's response, as for a GET without a key", waits)
		}
	},
}}

// overtakes reports whether a request gets its response while a slow one is running, which takes the time takes alone.
func (t *trial) overtakes(label string, other request, takes time.Duration) (bool, *answer) {
	atLeast := time.Duration(t.run.target.Slow.Takes)
	first, second := t.overlapping(func() (request, request) {
		return t.request(t.variant(t.run.target.Slow.Operation), t.key(), t.payload()), other
	}, label)
	// The slow request can't have ended by then, so this response did not wait for it. Nor did the slow request wait
	// for the other one, or it would have taken the full time again. The other one comes a quarter of the time later,
	// and half of that is left for the noise of a busy machine.
	free := second.done.Before(first.sent.Add(atLeast)) && first.done.Before(second.done.Add(takes-atLeast/8))
	return second.ok() && free, second
}

// raceOnce sends one request many times concurrently.
func (t *trial) raceOnce(o Operation, label string) {
	t.anew()
	r := t.request(o, t.key(), t.payload())
	var first *answer
	for i, a := range t.race(label, slices.Repeat([]request{r}, racers)) {
		t.answered(a, fmt.Sprintf("%s %d", label, i+1))
		switch {
		case a.ok() && first == nil:
			first = a
		case a.ok():
			t.want(t.run.alike(first, a), "one and the same 2xx", fmt.Sprintf("%s, and in %s %d %s", first, label, i+1,
				t.unlike(first, a)))
		case a.refused():
			t.should(t.run.profile.inFlight(a), "2xx or "+list(t.run.profile.InFlight), a)
		default:
			t.want(false, "2xx or "+list(t.run.profile.InFlight), a)
		}
		if t.ended() {
			break // the others have the same result
		}
	}
	if !t.ended() {
		t.want(first != nil, "a success for one of them", "none")
	}
	t.effect(1)
	if t.ended() {
		panic(stopped{})
	}
}

// otherMeanwhile sends another payload under the key of a slow request that is running. If the other payload
// arrives first, otherMeanwhile returns the two in reverse order.
func (t *trial) otherMeanwhile() (first, second *answer) {
	o := t.use(t.run.target.Slow.Operation)
	first, second = t.overlapping(func() (slow, meanwhile request) {
		key := t.key()
		return t.request(o, key, t.payload()), t.request(o, key, t.payload())
	}, "another payload under the same key")
	if first.refused() && second.ok() {
		first, second = second, first
	}
	return first, second
}
