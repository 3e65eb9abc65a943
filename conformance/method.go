package conformance

import (
	"bytes"
	"time"
)

var methodCases = []Case{{
	Slug: "method-get-uncached", Level: Should, Needs: []Need{NeedGet},
	Sequence: "a GET with a key; an effect; the same GET",
	Rule:     "A GET is never answered from a record: the second sees the effect, and is not marked as a replay.",
	Why:      "A client that sends its key with everything would read a stale balance for a day.",
	Sources:  []Source{rfc("9110", "9.2.1", Must), contract("safe methods never reserve a key", Must)},
	run: func(t *trial) {
		get := t.variant(*t.run.target.Get)
		r := t.request(get, t.key(), t.payload())
		a := t.accept("GET with a key", r)
		t.accept("an effect", t.request(t.operation(), t.key(), t.payload()))
		bare := r.without(t.run.target.keyHeader())
		c := t.accept("GET without a key", bare)
		for end := time.Now().Add(time.Second); bytes.Equal(a.body, c.body) && time.Now().Before(end); {
			t.wait(50 * time.Millisecond) // the effect may come after its response
			c = t.accept("GET without a key", bare)
		}
		if bytes.Equal(a.body, c.body) {
			t.inconclusive("the target's GET did not change with the effect")
		}
		b := t.send("the same GET", r)
		t.want(!bytes.Equal(b.body, a.body) || b.status != a.status, "what a GET without a key reads, "+c.String(), b)
		t.want(!t.run.profile.marked(b.header), "no marker", markers(b.header))
	},
}, {
	Slug: "method-get-reserves-nothing", Level: Should, Needs: []Need{NeedGet},
	Sequence: "a GET with a key; the operation under the same key",
	Rule:     "A GET leaves its key free: the operation runs, with one effect.",
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
