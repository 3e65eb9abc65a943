package conformance

import "fmt"

var controlCases = []Case{{
	Slug: slugBaseline, Level: Must,
	Sequence: "K,B1",
	Rule:     "A first request under a fresh key is processed normally: 2xx, and E=1 where effects are counted.",
	Why:      "Without one success there is nothing to repeat: when this fails the description is wrong or the target is down, and all other cases are blocked.",
	Sources:  []Source{draft("2.6", Should), contract("first success", Must)},
	run: func(t *trial) {
		a := t.send("the first request", t.request(t.operation(), t.key(), t.payload()))
		t.want(a.ok(), "2xx", a)
		if e := t.run.target.Effects; e != nil && e.ResponseID != "" && a.ok() && t.blind {
			err := counterError("the operation's response has nothing at %q", e.ResponseID)
			t.run.halt(stopConfig, err)
			t.stop(Harness, "", err.Error())
		}
		if t.run.target.Effects != nil {
			n := t.effects()
			t.want(n == 1, effectsText(1), effectsText(n))
		}
	},
}, {
	Slug: slugDistinct, Level: Must, Needs: []Need{NeedEffects},
	Sequence: "K1,B1; K2,B1",
	Rule:     "Two keys are two operations, also with the same payload: both 2xx, E=2.",
	Why:      "A server that recognises repetitions by the payload alone swallows the second of two equal orders. It shows too that the counter counts.",
	Sources:  []Source{draft("2.2", Must), draft("2.6", Should)},
	run: func(t *trial) {
		p := t.payload()
		a := t.send("the first key", t.request(t.operation(), t.key(), p))
		b := t.send("the second key", t.request(t.operation(), t.key(), p))
		n := t.effects()
		if t.run.target.Effects.ResponseID != "" && n == 1 && a.ok() && b.ok() {
			t.inconclusive("two operations have the same id in their responses: either the second was taken for the first, or the id is no id, and effects can't be counted by it")
		}
		ok := t.want(a.ok() && b.ok(), "2xx for both", fmt.Sprintf("%s, and %s", a, b))
		t.run.counts = t.want(n == 2, effectsText(2), effectsText(n)) && ok
	},
}, {
	Slug: slugOracle, Level: Must, after: []string{slugDistinct},
	Sequence: "K1,B1; K2,B1",
	Rule:     "A replay can be told from a new run: effects are counted, or the responses to two operations differ. Otherwise inconclusive.",
	Why:      "A server that forgets every key and always gives the same answer passes every comparison of responses. Every verdict about a replay stands on this.",
	Sources:  []Source{contract("conformance", Must)},
	run: func(t *trial) {
		p := t.payload()
		a := t.accept("the first key", t.request(t.operation(), t.key(), p))
		b := t.accept("the second key", t.request(t.operation(), t.key(), p))
		t.run.telling = differences(a, b)
		if len(t.run.telling) == 0 && !t.fx() {
			t.inconclusive("two operations got equal responses, and effects are not counted: no replay can be told from a new run; declare how to count effects")
		}
	},
}}
