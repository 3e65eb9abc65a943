package conformance

import (
	"fmt"
	"slices"

	"github.com/redo-go/redo/internal/wire"
)

// badBytes judges a key that no server must understand, and that every server must survive.
func (t *trial) badBytes(value string) {
	a := t.try("a key with such a byte", t.keyed(t.bare(t.operation(), t.payload()), value))
	switch {
	case a.err != nil:
		t.should(false, "4xx", a)
	case a.status >= 500:
		t.must(false, "4xx", a)
	default:
		t.should(a.refused(), "4xx", a)
	}
	if a.refused() {
		t.effect(0)
	}
}

var keyFormCases = []Case{{
	Slug: "key-sf-quoted", Level: Inform, Needs: []Need{NeedHeader}, gated: true,
	Sequence: "a key bare; the same in quotation marks",
	Rule:     "Records whether a key in quotation marks is the same one, another one, or refused.",
	Why: "The draft has keys quoted, most clients send them bare, and proxies and libraries change one " +
		"into the other.",
	Sources: []Source{draft("2.1", Must)},
	run: func(t *trial) {
		p, key := t.payload(), t.key()
		other := wire.QuoteKey(key)
		if t.run.target.Key.Quoted {
			other = key
		}
		a := t.accept("the form that the target wants", t.request(t.operation(), key, p))
		b := t.retry("the other form", t.keyed(t.bare(t.operation(), p), other))
		t.note("%s", t.relation(a, b))
	},
}, {
	Slug: "key-both-forms", Level: Must, Needs: []Need{NeedBothForms}, gated: true,
	Sequence: "a key bare, then in quotation marks; and the other way round",
	Rule:     "A key is the same with and without quotation marks: both are replays, one effect for each key.",
	Why: "A client that is upgraded to the draft's form in the middle of its retries must not run its " +
		"operation again.",
	Sources: []Source{draft("2.1", Must), contract("a server accepts both and treats them as the same key", Must)},
	run: func(t *trial) {
		for _, forms := range [][2]func(string) string{{bareKey, wire.QuoteKey}, {wire.QuoteKey, bareKey}} {
			p, key := t.payload(), t.key()
			a := t.send("one form", t.keyed(t.bare(t.operation(), p), forms[0](key)))
			b := t.retry("the other form", t.keyed(t.bare(t.operation(), p), forms[1](key)))
			t.want(a.ok() && t.run.alike(a, b), "2xx and the same again", fmt.Sprintf("%s, and then %s", a,
				t.unlike(a, b)))
			if !t.fx() && !t.ended() {
				t.proven(t.operation(), a, b)
			}
		}
		t.effect(2)
	},
}, {
	Slug: "key-malformed", Level: Should, Needs: []Need{NeedKeyStrict, NeedHeader},
	Sequence: "a key with an opening quotation mark alone",
	Rule:     "A key that is no structured-field string is refused: 400, and no effect.",
	Why:      "A key that is half read is another key than the client meant.",
	Sources:  []Source{draft("2.1", Must), contract("key format", Must)},
	run: func(t *trial) {
		a := t.send("an unfinished string", t.keyed(t.bare(t.operation(), t.payload()), `"`+t.key()))
		t.refusal(a, t.run.profile.MalformedKey)
	},
}, {
	Slug: "key-bad-bytes", Level: Should, Needs: []Need{NeedHeader},
	Sequence: "a key with the byte 0xE9",
	Rule:     "A key that is not ASCII is refused with a 4xx. A 2xx is a warning, a 5xx a failure.",
	Why: "A byte that one hop reads as Latin-1 and the next as UTF-8 makes two keys; a database that " +
		"refuses the byte makes it a 500.",
	Sources: []Source{draft("2.1", Must), draft("5", Should)},
	run:     func(t *trial) { t.badBytes(t.key() + "\xE9") },
}, {
	Slug: "key-control-bytes", Level: Should, Needs: []Need{NeedHeader},
	Sequence: "a key with the byte 0x01 in it",
	Rule:     "A key with a control character is refused with a 4xx. A 2xx is a warning, a 5xx a failure.",
	Why:      "It ends up in logs and stores that treat it as more than text.",
	Sources:  []Source{rfc("9110", "5.5", Must), contract("key format", Must)},
	run:      func(t *trial) { key := t.key(); t.badBytes(key[:18] + "\x01" + key[18:]) },
}, {
	Slug: "key-dup-header", Level: Should, Needs: []Need{NeedHeader},
	Sequence: "two lines of the key header with different keys",
	Rule:     "Two different keys are refused: 400, and no effect.",
	Why:      "Two hops that choose differently run the operation once under each key.",
	Sources:  []Source{draft("2.1", Must), rfc("9110", "5.3", Must)},
	run: func(t *trial) {
		r := t.keyed(t.keyed(t.bare(t.operation(), t.payload()), t.form(t.key())), t.form(t.key()))
		t.refusal(t.send("two keys", r), t.run.profile.MalformedKey)
	},
}, {
	Slug: "key-whitespace", Level: Must, Needs: []Need{NeedHeader}, gated: true,
	Sequence: "a key; the same with spaces and tabs around it",
	Rule:     "White space around the key is not part of it: the second is a replay, with no further effect.",
	Why:      "HTTP allows it, proxies add and remove it, and a retry may take another way.",
	Sources:  []Source{rfc("9110", "5.5", Must)},
	run: func(t *trial) {
		p, key := t.payload(), t.form(t.key())
		a := t.accept("the key", t.keyed(t.bare(t.operation(), p), key))
		b := t.retry("the key with white space around it", t.keyed(t.bare(t.operation(), p), " \t"+key+" \t"))
		t.again(a, b)
	},
}, {
	Slug: "key-repeated", Level: Inform, Needs: []Need{NeedHeader}, gated: true,
	Sequence: "a key; the same in two lines of the key header",
	Rule:     "Records whether a key that is sent twice is the same one, another one, or refused.",
	Why:      "A proxy that adds a second line must not make a retry a new operation.",
	Sources:  []Source{rfc("9110", "5.3", Must)},
	run: func(t *trial) {
		r := t.request(t.operation(), t.key(), t.payload())
		a := t.accept("the key once", r)
		b := t.retry("the key twice", r.with(r.fields[len(r.fields)-1].name, r.fields[len(r.fields)-1].value))
		t.note("%s", t.relation(a, b))
	},
}}

func bareKey(key string) string { return key }

// relation describes how a second request relates to the first one.
func (t *trial) relation(first, second *answer) string {
	switch {
	case second.refused() && t.run.profile.mismatch(second) && !slices.Contains(t.run.profile.MalformedKey,
		second.status):
		return fmt.Sprintf("refused as another payload: %s", second)
	case second.refused():
		return fmt.Sprintf("refused: %s", second)
	case !second.ok():
		return fmt.Sprintf("neither accepted nor refused: %s", second)
	}
	if t.fx() {
		if t.effects(1) == 1 {
			return "the same: it was replayed"
		}
		return "another one: it was run"
	}
	if t.run.alike(first, second) {
		return "the same: it was replayed"
	}
	return "another one: it was run"
}
