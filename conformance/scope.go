package conformance

var scopeCases = []Case{{
	Slug: slugPrincipal, Level: Must, Needs: []Need{NeedPrincipal}, gated: true,
	Sequence: "the first principal's request; the same key and payload as the second principal",
	Rule:     "The second principal never gets the first one's response: it has its own result, or a 4xx.",
	Why:      "Keys are guessed and reused: a response holds data that only its owner may see.",
	Sources:  []Source{draft("5", Should), contract("scope", Must)},
	run: func(t *trial) {
		own := t.lessonBy(t.operation(), 1)
		key, p := t.key(), t.payload()
		first := t.accept("the first principal", t.request(t.operation(), key, p))
		t.ownResult(first, t.asSecond(key, p), own)
	},
}, {
	Slug: "scope-undetectable", Level: Should, Needs: []Need{NeedPrincipal, NeedPayloads},
	Sequence: "the first principal's request; the same key with another payload as the second principal",
	Rule: "The second principal can't find out that the first has used the key: it succeeds, as with an unused " +
		"key.",
	Why:     "A 409 shows a stranger which keys, and so which orders, exist.",
	Sources: []Source{draft("5", Should), contract("another principal never sees, or can detect, a record", Must)},
	run: func(t *trial) {
		key := t.key()
		first := t.accept("the first principal", t.request(t.operation(), key, t.payload()))
		second := t.asSecond(key, t.payloadBy(1))
		if second.ok() && same(first, second) && len(t.run.telling) > 0 {
			t.block(slugPrincipal, "the second principal got the first one's response")
		}
		t.want(second.ok(), "2xx, as with an unused key", second)
	},
}}

// asSecond sends the operation under a key as the second principal.
func (t *trial) asSecond(key string, p payload) *answer {
	return t.send("the second principal, under the same key", t.as(t.request(t.operation(), key, p),
		t.run.target.Principals[1]))
}
