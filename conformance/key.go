package conformance

import (
	"fmt"
	"slices"
	"strings"

	"github.com/redo-go/redo/taxonomy"
)

// refusal judges a response that must refuse a request with one of the statuses. A refusal with an effect is a
// failure at every level.
func (t *trial) refusal(a *answer, lists ...[]int) {
	ok := slices.ContainsFunc(lists, func(statuses []int) bool { return has(statuses, a) })
	t.want(ok, "status "+list(slices.Compact(slices.Sorted(slices.Values(slices.Concat(lists...))))), a)
	t.noEffect(a)
}

// noEffect judges that a refusal has no effect. It only counts the effects of another response.
func (t *trial) noEffect(a *answer) {
	if a.refused() {
		t.effect(0)
	} else if t.fx() {
		t.effects(0)
	}
}

// coded judges whether an error has the code, if the profile requires it.
func (t *trial) coded(a *answer, c taxonomy.Code) {
	t.want(!t.run.profile.requires(c) || t.run.profile.code(a) == c, "the code "+t.run.profile.word(c), a)
}

// longKey is the length of a key that may be too long for the target. It is longer than the columns of databases, and
// short enough for the servers of HTTP.
const longKey = 1 << 10

func list(statuses []int) string {
	if len(statuses) == 0 {
		return "4xx"
	}
	words := make([]string, len(statuses))
	for i, s := range statuses {
		words[i] = fmt.Sprint(s)
	}
	return strings.Join(words, " or ")
}

// explained judges whether an error explains its cause to a person or a program.
func (t *trial) explained(a *answer) {
	t.want(a.isProblem() || a.header.Get("Link") != "", "application/problem+json or a Link header",
		fmt.Sprintf("%s, Content-Type %q", a, a.header.Get("Content-Type")))
}

var keyCases = []Case{{
	Slug: "key-missing", Level: Should, Needs: []Need{NeedKeyRequired},
	Sequence: "a request without a key",
	Rule: "A request without the key that it needs is refused: 400, explained by a problem document or " +
		"a Link, and no effect.",
	Why:     "A client that forgets the key must find out in its first test, and not by a double payment.",
	Sources: []Source{draft("2.7", Should), contract("key missing where required", Must)},
	run: func(t *trial) {
		a := t.send("a request without a key", t.bare(t.operation(), t.payload()))
		t.refusal(a, t.run.profile.MissingKey)
		if a.refused() {
			t.coded(a, taxonomy.KeyMissing)
		}
		if t.run.profile.Problems && a.refused() {
			t.explained(a)
		}
	},
}, {
	Slug: "key-optional", Level: Should, Needs: []Need{NeedKeyOptional, NeedEffects},
	Sequence: "the same request twice, without a key",
	Rule:     "Without a key every request is a new one: both run, two effects.",
	Why:      "An order that is placed twice on purpose, without a key, is two orders.",
	Sources:  []Source{contract("methods: required or optional per route", Should)},
	run: func(t *trial) {
		p := t.payload()
		t.accept("a request without a key", t.bare(t.operation(), p))
		b := t.send("the same without a key", t.bare(t.operation(), t.another(p)))
		t.want(b.ok(), "2xx", b)
		t.effect(2)
	},
}, {
	Slug: "key-empty", Level: Should, Needs: []Need{NeedKeyRequired},
	Sequence: "an empty key header",
	Rule:     "A key header without a value is no key: 400, and no effect.",
	Why:      "All clients with an unset variable would share the empty key, and one would get another's response.",
	Sources:  []Source{draft("2.1", Must), contract("key format", Must)},
	run: func(t *trial) {
		a := t.send("an empty key", t.keyed(t.bare(t.operation(), t.payload()), ""))
		t.refusal(a, t.run.profile.MissingKey, t.run.profile.MalformedKey)
	},
}, {
	Slug: "key-max-len", Level: Should, Needs: []Need{NeedFreeKeys}, gated: true,
	Sequence: "a key of the published greatest length, twice",
	Rule:     "A key of the published length works: 2xx, and the second is a replay with no further effect.",
	Why:      "A limit that is published and not kept fails the clients that went by it.",
	Sources:  []Source{stripe(), contract("key format", Must)},
	run: func(t *trial) {
		r := t.request(t.operation(), t.longKey(t.run.target.maxKey()), t.payload())
		a := t.send("the longest key", r)
		if t.want(a.ok(), "2xx", a) {
			b := t.retry("the same again", r)
			t.again(a, b)
		}
	},
}, {
	Slug: "key-too-long", Level: Must, Needs: []Need{NeedFreeKeys, NeedKeyLimit},
	Sequence: "a key one byte longer than published",
	Rule:     "A key that is too long is refused with a 4xx, never a 5xx, and without an effect.",
	Why:      "A key that does not fit its column is a 500, and the client then retries for ever without success.",
	Sources:  []Source{draft("5", Should), contract("key format", Must)},
	run: func(t *trial) {
		a := t.send("a key that is too long", t.request(t.operation(), t.longKey(t.run.target.maxKey()+1), t.payload()))
		t.want(a.refused(), "4xx", a)
		t.noEffect(a)
	},
}, {
	Slug: "key-no-truncate", Level: Must, Needs: []Need{NeedEffects, NeedFreeKeys},
	Sequence: "two keys of the greatest length that differ in their last byte; where no length is published, two of " +
		"1 KiB too",
	Rule:    "No key is cut off: both run, two effects, or both are refused with a 4xx.",
	Why:     "Keys that are cut collide, and one order gets another one's response.",
	Sources: []Source{draft("2.2", Must), contract("never truncated", Must)},
	run: func(t *trial) {
		p, key := t.payload(), t.longKey(t.run.target.maxKey()-1)
		a := t.send("the key that ends in a", t.request(t.operation(), key+"a", p))
		b := t.send("the key that ends in b", t.request(t.operation(), key+"b", t.another(p)))
		n := 2
		if a.refused() && b.refused() {
			n = 0
		} else {
			t.want(a.ok() && b.ok(), "2xx or 4xx for both", fmt.Sprintf("%s, and %s", a, b))
		}
		if !t.effect(n) || t.ended() || t.run.target.declares(NeedKeyLimit, t.run.profile) {
			return
		}
		key = t.longKey(longKey - 1)
		a = t.try("the long key that ends in a", t.request(t.operation(), key+"a", t.another(p)))
		b = t.try("the long key that ends in b", t.request(t.operation(), key+"b", t.another(p)))
		switch {
		case a.ok() && b.ok():
			t.effect(n + 2)
		case a.refused() && b.refused():
			t.effect(n)
		default: // the length is not promised
			t.should(false, "2xx or 4xx for both", fmt.Sprintf("%s, and %s", a, b))
		}
	},
}, {
	Slug: "key-equal-payload", Level: Must, Needs: []Need{NeedEffects},
	Sequence: "two fresh keys with the same payload",
	Rule:     "Two keys are two operations, also with the same payload: both 2xx, two effects.",
	Why:      "A server that recognises repetitions by the payload alone swallows the second of two equal orders.",
	Sources:  []Source{draft("2.2", Must)},
	run: func(t *trial) {
		if len(t.run.target.Setup) > 0 {
			t.skip("each payload of the target is set up for one operation")
		}
		p := t.payload()
		a := t.send("the first key", t.request(t.operation(), t.key(), p))
		b := t.send("the second key", t.request(t.operation(), t.key(), p))
		t.want(a.ok() && b.ok(), "2xx for both", fmt.Sprintf("%s, and %s", a, b))
		t.effect(2)
	},
}, {
	Slug: "key-case", Level: Must, Needs: []Need{NeedEffects, NeedFreeKeys},
	Sequence: "a key in small letters, and in capitals; the same with _, with %2D and with nothing for its hyphens",
	Rule: "Keys are compared byte for byte: one effect for each. A key with an underscore or a percent sign may be " +
		"refused with a 4xx.",
	Why: "A case-insensitive collation makes one of two keys in base64, and the second operation is never run. So " +
		"does a server that removes punctuation, or decodes a key as a part of a URL.",
	Sources: []Source{draft("2.1", Must)},
	run: func(t *trial) {
		p, key := t.payload(), "k"+t.key()
		a := t.accept("small letters", t.request(t.operation(), strings.ToLower(key), p))
		b := t.send("capitals", t.request(t.operation(), strings.ToUpper(key), t.another(p)))
		t.want(a.ok() && b.ok(), "2xx for both", fmt.Sprintf("%s, and %s", a, b))
		n := 2
		for _, mark := range []string{"_", "%2D", ""} {
			if !t.effect(n) || t.ended() {
				return
			}
			c := t.send(fmt.Sprintf("%q for each hyphen", mark),
				t.request(t.operation(), strings.ReplaceAll(key, "-", mark), t.another(p)))
			if c.ok() {
				n++
			}
			t.want(c.ok() || c.refused(), "2xx or 4xx", c)
		}
		t.effect(n)
	},
}, {
	Slug: "key-header-case", Level: Must, Needs: []Need{NeedHeader}, gated: true,
	Sequence: "a request with the key header's name in small letters; the same in capitals",
	Rule:     "The header's name is the same in any case: the second is a replay, with no further effect.",
	Why: "HTTP/2 writes every name in small letters; a server that looks for one spelling runs the " +
		"retry that came over another proxy.",
	Sources: []Source{rfc("9110", "5.1", Must)},
	run: func(t *trial) {
		r, key, name := t.firstSent(t.bare(t.operation(), t.payload())), t.form(t.key()), t.run.target.keyHeader()
		a := t.send("the name in small letters", r.with(strings.ToLower(name), key))
		b := t.retry("the name in capitals", r.with(strings.ToUpper(name), key))
		t.want(a.ok() && b.ok(), "2xx for both", fmt.Sprintf("%s, and %s", a, b))
		if t.fx() {
			t.effect(1)
			return
		}
		t.again(a, b)
	},
}}
