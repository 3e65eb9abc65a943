package conformance

import "fmt"

var controlCases = []Case{{
	Slug: slugBaseline, Level: Must,
	Sequence: "a fresh key",
	Rule:     "A first request under a fresh key is processed normally: 2xx, and one effect where effects are counted.",
	Why: "Without one success there is nothing to repeat: the description is wrong or the target is " +
		"down, and all other cases are blocked.",
	Sources: []Source{draft("2.6", Should), contract("first success", Must)},
	run: func(t *trial) {
		r := t.request(t.operation(), t.key(), t.payload())
		a := t.send("the first request", r)
		t.want(a.ok(), "2xx", fmt.Sprintf("%s, from %s %s", a, r.method, t.run.address(r)))
		if a.ok() && isOurs(a.header) && t.run.target.CustomProfile == nil {
			both := t.run.profile.BothForms || !t.run.target.Key.Quoted
			t.run.profile = t.run.profile.ours()
			t.run.profile.BothForms = both
		}
		e := t.run.target.Effects
		if e != nil && e.ResponseID != "" && a.ok() && len(t.tally.ids) == 0 {
			err := counterError("the operation's response has nothing at %q", e.ResponseID)
			t.run.halt(StopConfig, err)
			t.stop(Harness, "", err.Error())
		}
		if e != nil {
			n := t.effects(1)
			t.want(n == 1, effectsText(1), effectsText(n))
		}
	},
}, {
	Slug: slugDistinct, Level: Must, Needs: []Need{NeedEffects},
	Sequence: "two fresh keys with different payloads",
	Rule:     "Two keys are two operations: both 2xx, two effects.",
	Why:      "It shows that the counter counts, on which every case that judges effects depends.",
	Sources:  []Source{draft("2.2", Must), draft("2.6", Should)},
	run: func(t *trial) {
		a := t.send("the first key", t.request(t.operation(), t.key(), t.payload()))
		b := t.send("the second key", t.request(t.operation(), t.key(), t.payload()))
		n := t.effects(2)
		if t.run.target.Effects.ResponseID != "" && n == 1 && a.ok() && b.ok() {
			t.inconclusive("two operations have the same id in their responses: the second was taken for the " +
				"first, or " +
				"the id is no id; effects can't be counted by it")
		}
		ok := t.want(a.ok() && b.ok(), "2xx for both", fmt.Sprintf("%s, and %s", a, b))
		t.run.counts = t.want(n == 2, effectsText(2), effectsText(n)) && ok
	},
}, {
	Slug: slugOracle, Level: Must,
	Sequence: "two fresh keys with the same payload, the first again, and the second with another payload; a fresh " +
		"key for the first one while its first response is lost, up to three",
	Rule: "A replay and a new run can be distinguished: effects are counted, or the responses to two operations " +
		"differ. Otherwise inconclusive.",
	Why: "A server that forgets every key and always gives the same response passes every comparison " +
		"of responses. Every verdict about a replay depends on this.",
	Sources: []Source{contract("conformance", Must)},
	run: func(t *trial) {
		p := t.payload()
		r := t.request(t.operation(), t.key(), p)
		a := t.accept("the first key", r)
		operations := 2
		for ; a.resent && operations < 4; operations++ { // what replays look like is learned from a first response
			p = t.payload()
			r = t.request(t.operation(), t.key(), p)
			a = t.accept("another first key", r)
		}
		second := t.key()
		b := t.send("the second key", t.request(t.operation(), second, t.another(p)))
		if b.ok() {
			// Both payloads are equal. With different payloads, a server without a record would be recognised by the
			// text that it echoes.
			t.run.telling = differences(a, b)
		}
		if a.resent {
			t.inconclusive("the first responses to three keys were lost with their connections: what replays look like " +
				"can't be learned")
		}
		t.run.learnReplay(a, t.retry("the first key again", r))
		if t.run.target.declares(NeedPayloads, t.run.profile) {
			c := t.send("the second key with another payload", t.request(t.operation(), second, t.payload()))
			t.run.ignoresPayload = b.ok() && c.ok() && t.run.alike(b, c)
		}
		if t.fx() {
			t.tally.extra = max(0, t.effects(operations)-operations) // replay-effect judges the effects of a replay
		}
		if len(t.run.telling) == 0 && !t.fx() {
			t.inconclusive("two operations got equal responses, and effects are not counted: a replay looks like " +
				"a new run; declare how to count effects")
		}
	},
}}
