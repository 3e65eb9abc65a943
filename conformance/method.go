package conformance

import (
	"bytes"
	"time"
)

var methodCases = []Case{{
	Slug: "method-get-uncached", Level: Should, Needs: []Need{NeedGet, NeedHeader},
	Sequence: "a GET with a key; an effect; the same GET",
	Rule:     "A GET is never served from a record: the second sees the effect, and is not marked as a replay.",
	Why:      "A client that sends its key with everything would read a stale balance for a day.",
	Sources:  []Source{rfc("9110", "9.2.1", Must), contract("safe methods never reserve a key", Must)},
	run: func(t *trial) {
		get := t.variant(*t.run.target.Get)
		t.uncached(get, t.key(), t.request(t.operation(), t.key(), t.payload()))
	},
}, {
	Slug: "method-get-reserves-nothing", Level: Should, Needs: []Need{NeedGet, NeedHeader},
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
}, {
	Slug: "method-query", Level: Must, Needs: []Need{NeedQueryMethod, NeedHeader},
	Sequence: "a QUERY without a key; one with a key; the operation under the same key; the same QUERY",
	Rule: "QUERY is safe, although it has a body: it needs no key, leaves its key free, and is never served from a " +
		"record.",
	Why: "A middleware that lists the safe methods and has not heard of QUERY refuses searches without a key, and " +
		"replays an old result for those with one.",
	Sources: []Source{
		queryDraft("2", Must), rfc("9110", "9.2.1", Must), contract("safe methods never reserve a key", Must),
	},
	run: func(t *trial) {
		query, key := t.variant(*t.run.target.Query), t.key()
		a := t.send("QUERY without a key", t.bare(query, t.payload()))
		if t.want(a.ok(), "2xx without a key", a) {
			t.uncached(query, key, t.request(t.operation(), key, t.payload()))
			t.effect(1)
		}
	},
}}

// uncached judges a safe operation with a key. Its response follows an effect, and is no replay.
func (t *trial) uncached(o Operation, key string, effect request) {
	p := t.payload()
	r, bare := t.request(o, key, p), t.bare(o, p)
	a := t.accept(o.Method+" with a key", r)
	done := t.send("the operation, for an effect", effect)
	if !t.want(done.ok(), "2xx", done) {
		return
	}
	c := t.accept(o.Method+" without a key", bare)
	for end := time.Now().Add(time.Second); bytes.Equal(a.body, c.body) && time.Now().Before(end); {
		t.wait(50 * time.Millisecond) // the effect may come after its response
		c = t.accept(o.Method+" without a key", bare)
	}
	if bytes.Equal(a.body, c.body) {
		t.inconclusive("the target's %s did not change with the effect", o.Method)
	}
	b := t.send("the same "+o.Method, r)
	t.want(!bytes.Equal(b.body, a.body) || b.status != a.status, "the response without a key, "+c.String(), b)
	t.want(!t.run.profile.marked(b), "no marker", markers(b.header))
}
