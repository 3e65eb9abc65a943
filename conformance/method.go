package conformance

import "bytes"

var methodCases = []Case{{
	Slug: "method-get-uncached", Level: Should, Needs: []Need{NeedGet},
	Sequence: "GET with K; an effect; GET with K",
	Rule:     "A GET is never answered from a record: the second sees the effect, and is not marked as a replay.",
	Why:      "A client that sends its key with everything would read a stale balance for a day.",
	Sources:  []Source{rfc("9110", "9.2.1", Must), contract("safe methods never reserve a key", Must)},
	run: func(t *trial) {
		get := t.variant(*t.run.target.Get)
		r := t.request(get, t.key(), t.payload())
		a := t.accept("GET with a key", r)
		t.accept("an effect", t.request(t.operation(), t.key(), t.payload()))
		b := t.send("the same GET", r)
		c := t.accept("GET without a key", r.without(t.run.target.keyHeader()))
		if bytes.Equal(a.body, c.body) {
			t.inconclusive("the target's GET did not change with the effect")
		}
		t.want(bytes.Equal(b.body, c.body), "what a GET without a key reads, "+excerpt(string(c.body)), excerpt(string(b.body)))
		t.want(!t.run.profile.marked(b.header), "no marker", markers(b.header))
	},
}, {
	Slug: "method-get-reserves-nothing", Level: Should, Needs: []Need{NeedGet},
	Sequence: "GET with K; K,B1",
	Rule:     "A GET leaves its key free: the operation runs, E=1.",
	Why:      "A client that looks before it orders must not find its own key taken.",
	Sources:  []Source{rfc("9110", "9.2.1", Must), contract("safe methods never reserve a key", Must)},
	run: func(t *trial) {
		key := t.key()
		t.accept("GET with a key", t.request(t.variant(*t.run.target.Get), key, t.payload()))
		b := t.send("the operation under the same key", t.request(t.operation(), key, t.payload()))
		t.want(b.ok(), "2xx", b)
		t.effect(1)
	},
}}
