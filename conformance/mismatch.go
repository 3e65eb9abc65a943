package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/redo-go/redo/taxonomy"
)

// reuse sends B1 and then B2 under one key.
func (t *trial) reuse() (key string, b1 payload, first, second *answer) {
	key, b1 = t.key(), t.payload()
	first = t.accept("B1", t.request(t.operation(), key, b1))
	second = t.send("B2 under the same key", t.request(t.operation(), key, t.payload()))
	return key, b1, first, second
}

// ownResult judges an operation that meets another one's key: it runs by itself or is refused, but it never gets the
// other's response. Another one's body by chance, where all are the same, is told apart by the effects.
func (t *trial) ownResult(first, second *answer) {
	switch {
	case second.refused():
		t.effect(1)
	case !second.ok():
		t.want(false, "a success of its own, or a 4xx", second)
	case t.fx():
		t.effect(2)
		if len(t.run.telling) > 0 {
			t.notThe(first, second)
		}
	case len(t.run.telling) == 0:
		t.inconclusive("all operations get equal responses, and effects are not counted")
	default:
		t.notThe(first, second)
	}
}

func (t *trial) notThe(first, second *answer) {
	d := differences(first, second)
	t.want(slices.ContainsFunc(d, func(x aspect) bool { return slices.Contains(t.run.telling, x) }),
		"another response than the first operation's", "the first operation's response: "+second.String())
}

var mismatchCases = []Case{{
	Slug: slugMismatch, Level: Must, Needs: []Need{NeedPayloads},
	Sequence: "K,B1; K,B2",
	Rule:     "Another payload under a used key is never a success, and has no effect: E=1. Its status should be the profile's: 409 (redo), 422 (ietf), 400 (stripe).",
	Why:      "A client that reuses a key by mistake would take the first order's answer for the second one's.",
	Sources:  []Source{draft("2.7", Should), rfc("9110", "15.5.21", ""), contract("same key, other payload", Must)},
	run: func(t *trial) {
		_, _, _, b := t.reuse()
		if t.want(!b.ok(), "no 2xx", b) {
			t.should(t.run.profile.mismatch(b), "status "+list(t.run.profile.Mismatch), b)
		}
		t.effect(1)
	},
}, {
	Slug: "mismatch-path", Level: Must, Needs: []Need{NeedSecond}, after: []string{slugOracle},
	Sequence: "K,B1; K,B1 to the second operation",
	Rule:     "Another operation under the same key has its own result or a 4xx, and never the first one's response.",
	Why:      "A refund that gets the answer of the payment was never made, and looks as if it was.",
	Sources:  []Source{contract("scope and fingerprint", Must)},
	run: func(t *trial) {
		key, p := t.key(), t.payload()
		a := t.accept("the operation", t.request(t.operation(), key, p))
		b := t.send("the second operation under the same key", t.request(t.variant(*t.run.target.Second), key, p))
		t.ownResult(a, b)
	},
}, {
	Slug: "mismatch-method", Level: Must, Needs: []Need{NeedPatch}, after: []string{slugOracle},
	Sequence: "K,B1; K,B1 via PATCH",
	Rule:     "The same key with another method has its own result or a 4xx, and never the first one's response.",
	Why:      "Creating and changing are two operations, also at one path.",
	Sources:  []Source{contract("fingerprint over method, path, query and body", Must)},
	run: func(t *trial) {
		key, p := t.key(), t.payload()
		a := t.accept("the operation", t.request(t.operation(), key, p))
		b := t.send("PATCH under the same key", t.request(t.variant(*t.run.target.Patch), key, p))
		t.ownResult(a, b)
	},
}, {
	Slug: "mismatch-query", Level: Must, Needs: []Need{NeedQuery},
	Sequence: "K,B1; K,B1 with another query",
	Rule:     "Another query is another payload: no 2xx, and E=1.",
	Why:      "A parameter such as an amount or a currency may stand there.",
	Sources:  []Source{contract("fingerprint over method, path, query and body", Must)},
	run: func(t *trial) {
		r := t.request(t.operation(), t.key(), t.payload())
		t.accept("without the parameter", r)
		b := t.send("with another parameter", r.withQuery("redo_conformance=2"))
		t.want(!b.ok(), "no 2xx", b)
		t.effect(1)
	},
}, {
	Slug: slugSurvives, Level: Must, Needs: []Need{NeedPayloads}, gated: true, after: append([]string{slugMismatch}, replays...),
	Sequence: "K,B1; K,B2; K,B1",
	Rule:     "A mismatch leaves the record alone: the third request replays the first.",
	Why:      "Otherwise a wrong client destroys the record, and the right one's retry runs again.",
	Sources:  []Source{contract("same key, other payload", Must)},
	run: func(t *trial) {
		key, p, a, b := t.reuse()
		if b.ok() {
			t.block(slugMismatch, "B2 was accepted")
		}
		c := t.send("B1 again", t.request(t.operation(), key, p))
		t.want(same(a, c), "the first answer again", c)
		t.effect(1)
	},
}, {
	Slug: "mismatch-json-equal", Level: Inform, Needs: []Need{NeedJSON}, gated: true,
	Sequence: "K,B1; K,B1 with its JSON members in another order",
	Rule:     "Records whether the same JSON in other bytes is the same payload.",
	Why:      "Some encoders order members anew each time, so a retry may have other bytes. Both ways are legitimate, and have to be known.",
	Sources:  []Source{draft("2.4", May), contract("fingerprint", May)},
	run: func(t *trial) {
		r := t.request(t.operation(), t.key(), t.payload())
		a := t.accept("the document", r)
		r.body = reorder(r.body)
		t.note("%s", t.relation(a, t.send("the same in another order", r)))
	},
}, {
	Slug: "mismatch-problem", Level: Should, Needs: []Need{NeedPayloads, NeedProblems}, after: []string{slugMismatch},
	Sequence: "K,B1; K,B2",
	Rule:     "The refusal is a problem document or has a Link.",
	Why:      "It tells a person what went wrong, since no retry will help.",
	Sources:  []Source{draft("2.7", Should), rfc("9457", "3", "")},
	run: func(t *trial) {
		_, _, _, b := t.reuse()
		if !b.refused() {
			t.block(slugMismatch, "B2 was not refused")
		}
		t.explained(b)
	},
}, {
	Slug: "mismatch-code", Level: Must, Needs: []Need{NeedPayloads, NeedCodes}, after: []string{slugMismatch},
	Sequence: "K,B1; K,B2",
	Rule:     "The refusal has the code CONFLICT.idempotency.payload_mismatch.",
	Why:      "A mismatch and a key in flight have the same status: only the code keeps a client from retrying what can't work.",
	Sources:  []Source{contract("same key, other payload", Must)},
	run: func(t *trial) {
		_, _, _, b := t.reuse()
		if !b.refused() {
			t.block(slugMismatch, "B2 was not refused")
		}
		t.want(b.says(taxonomy.PayloadMismatch), string(taxonomy.PayloadMismatch), b)
	},
}}

// reorder returns the same JSON object with its members in the opposite order, or with a space in it where there is only
// one. It is nil when the text is no JSON object with members.
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
