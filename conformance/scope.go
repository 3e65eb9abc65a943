package conformance

import "slices"

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
	Sequence: "the first principal's request; the same key with another payload as the second principal; with a slow " +
		"operation, the same key and payload as the second principal while the first one's request runs",
	Rule: "The second principal can't find out that the first has used the key: it succeeds, as with an unused " +
		"key. It is not refused as in flight, unless another key is refused too.",
	Why:     "A 409 shows a stranger which keys, and so which orders, exist.",
	Sources: []Source{draft("5", Should), contract("another principal never sees, or can detect, a record", Must)},
	run: func(t *trial) {
		key := t.key()
		first := t.accept("the first principal", t.request(t.operation(), key, t.payload()))
		second := t.asSecond(key, t.payloadBy(1))
		t.ownOrBlocked(first, second)
		if t.want(second.ok(), "2xx, as with an unused key", second) && t.run.target.Slow != nil {
			t.sharedLock()
		}
	},
}}

// sharedLock judges whether the second principal is refused because the first one's request with the same key runs.
func (t *trial) sharedLock() {
	o := t.use(t.run.target.Slow.Operation)
	var stranger request
	meanwhile := func(other func(key string) string) (first, second *answer) {
		return t.overlapping(func() (request, request) {
			key, p := t.key(), t.payload()
			stranger = t.as(t.request(o, other(key), p), t.run.target.Principals[1])
			return t.request(o, key, p), stranger
		}, "the second principal")
	}
	first, second := meanwhile(func(key string) string { return key })
	if !t.run.profile.maybeRunning(second) {
		return
	}
	t.ownOrBlocked(first, t.retry("the second principal later", stranger))
	// An operation may lock the resource that it changes, whichever the key.
	if _, unused := meanwhile(func(string) string { return t.key() }); t.run.profile.maybeRunning(unused) {
		t.note("the second principal is refused while the first one's request runs, under any key: %s", unused)
		return
	}
	t.want(false, "2xx while the first principal's request runs, as with an unused key", second)
}

// ownOrBlocked ends the trial if the second principal got the first one's response.
func (t *trial) ownOrBlocked(first, second *answer) {
	telling := slices.DeleteFunc(slices.Clone(t.run.telling), func(x aspect) bool {
		return slices.Contains(t.run.rewrites, x)
	})
	own := slices.ContainsFunc(differences(first, second), func(x aspect) bool { return slices.Contains(telling, x) })
	if second.ok() && len(telling) > 0 && !own {
		t.block(slugPrincipal, "the second principal got the first one's response")
	}
}

// asSecond sends the operation under a key as the second principal.
func (t *trial) asSecond(key string, p payload) *answer {
	return t.send("the second principal, under the same key", t.as(t.request(t.operation(), key, p),
		t.run.target.Principals[1]))
}
