package conformance

// byBoth sends a request as A1 and another one under the same key as A2.
func (t *trial) byBoth(b1, b2 payload) (first, second *answer) {
	key := t.key()
	first = t.accept("A1", t.request(t.operation(), key, b1))
	second = t.send("A2 under the same key", t.as(t.request(t.operation(), key, b2), t.run.target.Principals[1]))
	return first, second
}

var scopeCases = []Case{{
	Slug: slugPrincipal, Level: Must, Needs: []Need{NeedPrincipal}, after: []string{slugOracle},
	Sequence: "A1,K,B1; A2,K,B1",
	Rule:     "A2 never gets A1's response: it has its own result, or a 4xx.",
	Why:      "Keys are guessed and reused: a response holds what only its owner may see.",
	Sources:  []Source{draft("5", Should), contract("scope", Must)},
	run: func(t *trial) {
		p := t.payload()
		first, second := t.byBoth(p, p)
		t.ownResult(first, second)
	},
}, {
	Slug: "scope-undetectable", Level: Should, Needs: []Need{NeedPrincipal, NeedPayloads}, after: []string{slugPrincipal},
	Sequence: "A1,K,B1; A2,K,B2",
	Rule:     "A2 can't find out that A1 has used the key: it succeeds, as with a key that nobody has used.",
	Why:      "A 409 tells a stranger which keys, and so which orders, there are.",
	Sources:  []Source{draft("5", Should), contract("another principal never sees, or can detect, a record", Must)},
	run: func(t *trial) {
		_, second := t.byBoth(t.payload(), t.payload())
		t.want(second.ok(), "2xx, as with a key that nobody has used", second)
	},
}}
