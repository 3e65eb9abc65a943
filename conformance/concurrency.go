package conformance

import (
	"fmt"
	"time"

	"github.com/redo-go/redo/internal/wire"
)

// overlaps is how often it is tried to have two requests run at the same time, where a busy machine may keep them apart.
const overlaps = 3

// racers is how many requests conc-one-effect sends at once.
const racers = 10

// overlapping sends a slow request and, while it is running, another one. It returns both answers once the overlap has
// been seen on this side: the second was sent before the first was answered. On a machine that is busy it takes another
// pair.
func (t *trial) overlapping(pair func() (slow, meanwhile request), label string) (first, second *answer) {
	for range overlaps {
		slow, meanwhile := pair()
		if first, second = t.meanwhile(slow, meanwhile, label); second.sent.Before(first.done) {
			return first, second
		}
		t.anew()
	}
	t.inconclusive("the slow operation was answered after %v, before anything else could be sent: it is to take %v",
		first.done.Sub(first.sent).Round(time.Millisecond), t.run.target.Slow.Takes)
	return nil, nil
}

// meanwhile sends one request, and another one a quarter of the slow operation's time later.
func (t *trial) meanwhile(slow, meanwhile request, label string) (first, second *answer) {
	x := t.run.dialer.open(t.ctx, slow)
	_ = x.write(-1) // finish finds out
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
	t.answered(first, "the slow request")
	t.answered(second, label)
	return first, second
}

// duplicate sends a slow request twice at the same time. Which of the two arrives first is the network's choice, so the
// one that was refused is returned second.
func (t *trial) duplicate() (o Operation, winner, other *answer) {
	o = t.variant(t.run.target.Slow.Operation)
	winner, other = t.overlapping(func() (request, request) {
		r := t.request(o, t.key(), t.payload())
		return r, r
	}, "the duplicate")
	if t.run.profile.inFlight(winner) {
		winner, other = other, winner
	}
	return o, winner, other
}

var concurrencyCases = []Case{{
	Slug: "conc-one-effect", Level: Must, Needs: []Need{NeedEffects}, after: replays,
	Sequence: "K,B1 ten times at once, with the last byte of each held back until all others are sent",
	Rule:     "One effect, E=1. Answers are one and the same 2xx, or refusals of a key in flight.",
	Why:      "Check-then-insert without a lock passes every sequential test, and pays twice when a phone retries over two networks.",
	Sources:  []Source{draft("2.6", Should), contract("reserve is atomic", Must)},
	run: func(t *trial) {
		r := t.request(t.operation(), t.key(), t.payload())
		requests := make([]request, racers)
		for i := range requests {
			requests[i] = r
		}
		var first *answer
		for i, a := range t.race("racer", requests) {
			t.answered(a, fmt.Sprintf("racer %d", i+1))
			switch {
			case a.ok() && first == nil:
				first = a
			case a.ok():
				t.want(same(first, a), "one and the same 2xx", fmt.Sprintf("%s, and in racer %d %s", first, i+1, a))
			default:
				t.want(t.run.profile.inFlight(a), "2xx or "+list(t.run.profile.InFlight), a)
			}
		}
		t.want(first != nil, "a success for one of them", "none")
		t.effect(1)
	},
}, {
	Slug: "conc-inflight", Level: Should, Needs: []Need{NeedSlow}, gated: true, after: replays,
	Sequence: "K,B1, slow; K,B1 while it runs",
	Rule:     "The duplicate is refused as in flight (409 or 425), or waits and gets the first one's response.",
	Why:      "A client that times out and retries while the first request runs is the usual case, not a rare one.",
	Sources:  []Source{draft("2.6", Should), draft("2.7", Should), contract("same key, still running", Must)},
	run: func(t *trial) {
		o, winner, other := t.duplicate()
		t.want(winner.ok(), "2xx for one of them", winner)
		if t.run.profile.inFlight(other) {
			t.effect(1)
			return
		}
		if t.want(same(winner, other), list(t.run.profile.InFlight)+", or the first one's response", other) {
			t.proven(o, winner, other)
		}
	},
}, {
	Slug: "conc-retry-after", Level: Should, Needs: []Need{NeedSlow},
	Sequence: "K,B1, slow; K,B1 while it runs",
	Rule:     "A refusal of a key in flight says when to come back, in a Retry-After that can be read.",
	Why:      "Without it clients guess, and come back together.",
	Sources:  []Source{rfc("9110", "10.2.3", May), contract("same key, still running", Must)},
	run: func(t *trial) {
		_, _, other := t.duplicate()
		for try := 1; try < overlaps && !t.run.profile.inFlight(other); try++ {
			t.anew()
			_, _, other = t.duplicate()
		}
		if !t.run.profile.inFlight(other) {
			t.skip("the target did not refuse the duplicate: %s", other)
		}
		_, ok := wire.Hint(other.header, other.done, false)
		t.want(ok, "a Retry-After of seconds or an HTTP date", fmt.Sprintf("Retry-After %q", other.header.Values("Retry-After")))
	},
}, {
	Slug: "conc-mismatch", Level: Must, Needs: []Need{NeedSlow, NeedPayloads}, after: []string{slugMismatch},
	Sequence: "K,B1, slow; K,B2 while it runs",
	Rule:     "Another payload is refused with a 4xx also while the first one is running, and E=1.",
	Why:      "Where the payload is compared only with finished records, both run.",
	Sources:  []Source{draft("2.6", Should), draft("2.7", Should), contract("same key, other payload", Must)},
	run: func(t *trial) {
		first, second := t.otherMeanwhile()
		t.want(first.ok(), "2xx for one of the two", first)
		t.want(second.refused(), "4xx for the other", second)
		t.effect(1)
	},
}, {
	Slug: "conc-mismatch-wins", Level: Should, Needs: []Need{NeedSlow, NeedPayloads, NeedFirst}, after: []string{slugMismatch},
	Sequence: "K,B1, slow; K,B2 while it runs",
	Rule:     "Another payload is refused as a mismatch, not as in flight.",
	Why:      "Who is told to wait waits for nothing: the answer will be the mismatch.",
	Sources:  []Source{contract("a mismatch wins over in flight", Must)},
	run: func(t *trial) {
		_, second := t.otherMeanwhile()
		if !second.refused() {
			t.block("conc-mismatch", "neither was refused")
		}
		t.want(t.run.profile.mismatch(second), "status "+list(t.run.profile.Mismatch)+", not in flight", second)
	},
}, {
	Slug: "independent-keys", Level: Should, Needs: []Need{NeedSlow},
	Sequence: "K1, slow; K2 at once",
	Rule:     "A request that runs blocks its own key alone: K2 is answered before K1.",
	Why:      "One lock for all keys makes one slow provider everybody's.",
	Sources:  []Source{contract("a key means nothing outside its scope", Should)},
	run: func(t *trial) {
		var first, second *answer
		for try := 0; try < overlaps && (second == nil || !second.done.Before(first.done)); try++ {
			first, second = t.overlapping(func() (slow, meanwhile request) {
				slow = t.request(t.variant(t.run.target.Slow.Operation), t.key(), t.payload())
				return slow, t.request(t.operation(), t.key(), t.payload())
			}, "another key")
		}
		t.want(second.ok() && second.done.Before(first.done), "2xx before the slow request is answered",
			fmt.Sprintf("%s, %v after it", second, second.done.Sub(first.done).Round(time.Microsecond)))
	},
}}

// otherMeanwhile sends B2 under the key of a slow B1 that is running. Should B2 arrive first, it is the other way round.
func (t *trial) otherMeanwhile() (first, second *answer) {
	o := t.variant(t.run.target.Slow.Operation)
	first, second = t.overlapping(func() (slow, meanwhile request) {
		key := t.key()
		return t.request(o, key, t.payload()), t.request(o, key, t.payload())
	}, "B2 under the same key")
	if first.refused() && second.ok() {
		first, second = second, first
	}
	return first, second
}
