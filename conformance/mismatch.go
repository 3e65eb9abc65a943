package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/redo-go/redo/taxonomy"
)

// reuse sends two payloads under one key.
func (t *trial) reuse() (key string, b1 payload, first, second *answer) {
	key, b1 = t.key(), t.payload()
	first = t.accept("the first payload", t.request(t.operation(), key, b1))
	second = t.retry("the second payload under the same key", t.request(t.operation(), key, t.payload()))
	return key, b1, first, second
}

// partly judges payloads under a used key that differ from its payload in one variable. The draft allows a fingerprint
// of selected elements (section 2.4), so a replay is a warning unless the profile compares the whole payload.
func (t *trial) partly(key string, p payload) {
	judge := t.should
	if t.run.profile.WholePayload {
		judge = t.want
	}
	other, names := t.values(), []string{}
	for _, name := range []string{varPayload, varNumber, varUUID} {
		if t.operation().uses(name) {
			names = append(names, name)
		}
	}
	if len(names) == 1 {
		return // the second payload differed in it
	}
	for _, name := range names {
		changed := maps.Clone(p)
		changed[name] = other[name]
		a := t.send(fmt.Sprintf("a payload with another {{%s}}", name), t.request(t.operation(), key, changed))
		if !judge(!a.ok(), fmt.Sprintf("no 2xx for another {{%s}}", name), a) {
			return
		}
	}
}

// ownResult judges an operation that uses another operation's key. The target may run it separately or refuse it,
// but must never return the other's response. The parameter own is its result under a fresh key: its effects may
// be counted elsewhere, or not at all.
func (t *trial) ownResult(first, second *answer, own *lesson) {
	// A replay of the first response can differ from it in these aspects, so that they prove nothing.
	telling := slices.DeleteFunc(differences(first, own.answer), func(x aspect) bool {
		return slices.Contains(t.run.rewrites, x)
	})
	switch {
	case second.refused():
		t.effect(1)
	case !second.ok():
		t.want(false, "its own success, or a 4xx", second)
	case len(telling) > 0:
		// Another successful result is proof. The number of keys bounds its effects.
		d := differences(first, second)
		t.want(slices.ContainsFunc(d, func(x aspect) bool { return slices.Contains(telling, x) }),
			"another response than the first operation's", "the first operation's response: "+second.String())
	case t.fx() && own.effects > 0:
		t.effect(1 + own.effects)
	default:
		t.inconclusive("both operations get equal responses, and the second one's effects are not counted")
	}
}

// other judges the operation o under the key of the main operation.
func (t *trial) other(o Operation, label string) {
	o = t.variant(o)
	own := t.lesson(o)
	t.tally.extra += 2 * max(0, own.effects-1) // the lesson and the second request may have that many each
	key, p := t.key(), t.payload()
	first := t.accept("the operation", t.request(t.operation(), key, p))
	t.ownResult(first, t.retry(label, t.request(o, key, p)), own)
}

var mismatchCases = []Case{{
	Slug: slugMismatch, Level: Must, Needs: []Need{NeedPayloads, NeedOnePayload},
	Sequence: "one key with two payloads; then with payloads that differ in one of the template's variables only",
	Rule: "Another payload under a used key is never a success, and has no effect. Its status should be " +
		"the profile's: 409 (redo, ucp), 422 (ietf, acp), 400 (stripe, azure). If one variable differs, a replay is " +
		"a warning where the profile allows it.",
	Why:     "A client that reuses a key by mistake would take the first order's response for the second one's.",
	Sources: []Source{draft("2.7", Should), rfc("9110", "15.5.21", ""), contract("same key, other payload", Must)},
	run: func(t *trial) {
		key, p, _, b := t.reuse()
		if t.want(!b.ok(), "no 2xx", b) {
			t.should(t.run.profile.mismatch(b), "status "+list(t.run.profile.Mismatch), b)
			t.partly(key, p)
		}
		t.effect(1)
	},
}, {
	Slug: "mismatch-path", Level: Must, Needs: []Need{NeedSecond, NeedOnePayload}, gated: true,
	Sequence: "a key; the same for the second operation",
	Rule:     "Another operation under the same key has its own result or a 4xx, and never the first one's response.",
	Why:      "A refund that gets the response of the payment was never made, and looks as if it was.",
	Sources:  []Source{contract("scope and fingerprint", Must)},
	run: func(t *trial) {
		t.other(*t.run.target.Second, "the second operation under the same key")
	},
}, {
	Slug: "mismatch-method", Level: Must, Needs: []Need{NeedPatch, NeedOnePayload}, gated: true,
	Sequence: "a key; the same by PATCH",
	Rule:     "The same key with another method has its own result or a 4xx, and never the first one's response.",
	Why:      "Creating and changing are two operations, also at one path.",
	Sources:  []Source{contract("fingerprint over method, path, query and body", Must)},
	run: func(t *trial) {
		t.other(*t.run.target.Patch, "PATCH under the same key")
	},
}, {
	Slug: "mismatch-query", Level: Must, Needs: []Need{NeedQuery},
	Sequence: "a key; the same with another query",
	Rule:     "Another query is another payload: no 2xx, and no further effect.",
	Why:      "A parameter such as an amount or a currency may stand there.",
	Sources:  []Source{contract("fingerprint over method, path, query and body", Must)},
	run: func(t *trial) {
		r := t.request(t.operation(), t.key(), t.payload())
		t.accept("without the parameter", r)
		b := t.retry("with another parameter", r.withQuery("redo_conformance=2"))
		t.want(!b.ok(), "no 2xx", b)
		t.effect(1)
	},
}, {
	Slug: slugSurvives, Level: Must, Needs: []Need{NeedPayloads, NeedOnePayload}, gated: true,
	Sequence: "one key with the first payload, the second and the first again",
	Rule:     "A mismatch leaves the record alone: the third request replays the first.",
	Why:      "Otherwise a wrong client destroys the record, and the right one's retry runs again.",
	Sources:  []Source{contract("same key, other payload", Must)},
	run: func(t *trial) {
		key, p, a, b := t.reuse()
		if b.ok() {
			t.block(slugMismatch, "the second payload was accepted")
		}
		c := t.retry("the first payload again", t.request(t.operation(), key, p))
		t.want(t.run.alike(a, c), "the first response again, "+a.String(), t.unlike(a, c))
		t.effect(1)
	},
}, {
	Slug: "mismatch-json-equal", Level: Inform, Needs: []Need{NeedJSON}, gated: true,
	Sequence: "a key; the same with its JSON members in another order",
	Rule:     "Records whether the same JSON in other bytes is the same payload.",
	Why: "Some encoders order members anew each time, so a retry may have other bytes. Both ways are " +
		"legitimate, and have to be known.",
	Sources: []Source{draft("2.4", May), contract("fingerprint", May)},
	run: func(t *trial) {
		r := t.request(t.operation(), t.key(), t.payload())
		a := t.accept("the document", r)
		r.body = reorder(r.body)
		t.note("%s", t.relation(a, t.retry("the same in another order", r)))
	},
}, {
	Slug: "mismatch-problem", Level: Should, Needs: []Need{NeedPayloads, NeedProblems},
	Sequence: "one key with two payloads",
	Rule:     "The refusal is a problem document or has a Link.",
	Why:      "It explains the fault to a person, because no retry helps.",
	Sources:  []Source{draft("2.7", Should), rfc("9457", "3", "")},
	run: func(t *trial) {
		_, _, _, b := t.reuse()
		if !b.refused() {
			t.block(slugMismatch, "the second payload was not refused: %s", b)
		}
		t.explained(b)
	},
}, {
	Slug: "mismatch-code", Level: Must, Needs: []Need{NeedPayloads, NeedCodes, NeedOnePayload},
	Sequence: "one key with two payloads",
	Rule: "The refusal has the profile's code: CONFLICT.idempotency.payload_mismatch (redo), idempotency_conflict " +
		"(acp), IDEMPOTENCY_CONFLICT (adcp).",
	Why: "A mismatch and a key in flight have the same status: only the code keeps a client from " +
		"retrying in vain.",
	Sources: []Source{contract("same key, other payload", Must)},
	run: func(t *trial) {
		_, _, _, b := t.reuse()
		if !b.refused() {
			t.block(slugMismatch, "the second payload was not refused: %s", b)
		}
		t.coded(b, taxonomy.PayloadMismatch)
	},
}}

// reorder returns the same JSON object with its members in reverse order. If there is only one member, it adds a
// space instead. It returns nil if the text is not a JSON object with members.
func reorder(doc []byte) []byte {
	dec := json.NewDecoder(bytes.NewReader(doc))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil
	}
	var members []string
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return nil
		}
		quoted, err := json.Marshal(name)
		if err != nil {
			return nil
		}
		members = append(members, fmt.Sprintf("%s:%s", quoted, value))
	}
	if _, err := dec.Token(); err != nil || len(members) == 0 {
		return nil
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil
	}
	slices.Reverse(members)
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(m)
	}
	if len(members) == 1 {
		b.WriteByte(' ')
	}
	b.WriteByte('}')
	return b.Bytes()
}
