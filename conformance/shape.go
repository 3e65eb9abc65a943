package conformance

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// replayShapeCases test responses that servers easily record wrongly.
var replayShapeCases = []Case{{
	Slug: "replay-204", Level: Must, Needs: []Need{NeedEmpty}, gated: true,
	Sequence: "an operation that returns 204, twice",
	Rule:     "An empty response is replayed as one: 204 twice, without a body.",
	Why:      "A recorder that takes no body for no record runs the operation again, or returns 200.",
	Sources:  []Source{draft("2.6", Should), rfc("9110", "15.3.5", Must)},
	run: func(t *trial) {
		o := t.use(*t.run.target.Empty)
		r := t.request(o, t.key(), t.payload())
		a := t.accept("the first request", r)
		if a.status != http.StatusNoContent {
			t.inconclusive("the response of the target's empty operation was %s", a)
		}
		b := t.retry("the second", r)
		if t.want(b.status == http.StatusNoContent || t.run.replays != 0 && b.status == t.run.replays &&
			len(b.body) == 0,
			"204", b) {
			t.proven(o, a, b)
		}
	},
}, {
	Slug: "replay-large", Level: Must, Needs: []Need{NeedLarge, NeedOneBody}, gated: true,
	Sequence: "an operation that returns 1 MiB, twice",
	Rule:     "A large response is replayed whole, with no further effect.",
	Why:      "A record that is cut at a column's width is a wrong response that looks right.",
	Sources:  []Source{contract("replay: same body bytes", Must)},
	run: func(t *trial) {
		if slices.Contains(t.run.rewrites, aspectBody) {
			t.block(slugBody, "replays have another body")
		}
		o := t.use(*t.run.target.Large)
		r := t.request(o, t.key(), t.payload())
		a := t.accept("the first request", r)
		if len(a.content()) < 1<<20 {
			t.inconclusive("the target's large operation returned %d bytes, which is less than 1 MiB", len(a.content()))
		}
		b := t.retry("the second", r)
		t.want(t.run.alike(a, b), "the same response again, "+a.String(), t.unlike(a, b))
		if !t.ended() {
			t.proven(o, a, b)
		}
	},
}, {
	Slug: "replay-encoding", Level: Should, gated: true,
	Sequence: "a key with Accept-Encoding: gzip; the same with Accept-Encoding: identity",
	Rule: "A replay is encoded as this request accepts and as Content-Encoding states, and decodes to the same " +
		"content.",
	Why:     "Stored gzip bytes under a header that was made anew, or for a client that can't read them, are garbage.",
	Sources: []Source{rfc("9110", "8.4", Must), rfc("9110", "12.5.3", Should)},
	run: func(t *trial) {
		r := t.request(t.operation(), t.key(), t.payload()).without("Accept-Encoding")
		a := t.accept("gzip is accepted", r.with("Accept-Encoding", "gzip"))
		b := t.retry("nothing but identity is accepted", r.with("Accept-Encoding", "identity"))
		_, err := decoded(a)
		t.want(err == nil, "a body that is encoded as Content-Encoding states", err)
		_, err = decoded(b)
		t.want(err == nil, "a body that is encoded as Content-Encoding states", err)
		coding := b.header.Get("Content-Encoding")
		t.want(coding == "" || strings.EqualFold(coding, "identity"),
			"no Content-Encoding where only identity is accepted", coding)
		if t.ended() {
			return
		}
		if t.fx() {
			t.proven(t.operation(), a, b)
		}
		if t.run.profile.NewBody {
			return
		}
		if slices.Contains(t.run.rewrites, aspectBody) {
			t.block(slugBody, "replays have another body")
		}
		t.want(bytes.Equal(a.content(), b.content()), "the same content when decoded",
			difference(t.run.mask.hide(string(a.content())), t.run.mask.hide(string(b.content()))))
	},
}, {
	Slug: "replay-other-headers", Level: Should, gated: true,
	Sequence: "a key; the same with another User-Agent, X-Request-Id and traceparent; from another network, with " +
		"an Accept of the same meaning; with an Origin",
	Rule: "Headers that belong to one attempt are no part of the payload, nor of the key: the others are replays, " +
		"with no further effect. A network or an Origin that the target refuses for a fresh key too is not judged.",
	Why: "Every attempt has its own trace. A server that compares all headers refuses all retries. A phone that " +
		"changes its network pays twice if the address is part of the key.",
	Sources: []Source{draft("2.4", May), contract("fingerprint over method, path, query and body", Must)},
	run: func(t *trial) {
		r := t.request(t.operation(), t.key(), t.payload())
		attempt := func(n string) request {
			return r.set("User-Agent", "attempt-"+n).set("X-Request-Id", "attempt-"+n).
				set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b"+n+"-01")
		}
		a := t.accept("the first attempt", attempt("1"))
		t.again(a, t.retry("the second attempt", attempt("2")))
		for _, way := range []struct {
			label  string
			fields []field
		}{{"from another network", t.elsewhere(a)}, {"with an Origin", []field{{"Origin", t.origin()}}}} {
			if t.ended() {
				return
			}
			b := t.retry("the same "+way.label, r.plus(way.fields))
			if !b.refused() || t.run.alike(a, b) { // this target's replays may have the status of a refusal
				t.again(a, b)
				continue
			}
			fresh := t.request(t.operation(), t.key(), t.payload())
			c := t.send("a fresh key "+way.label, fresh.plus(way.fields))
			if t.want(c.refused(), "the same response again, "+a.String(), t.unlike(a, b)) {
				t.note("the target refuses a request %s: %s", way.label, c)
			}
		}
	},
}, {
	Slug: "replay-chunked", Level: Should, Needs: []Need{NeedBody}, gated: true,
	Sequence: "a body with its length; the same key and body in chunks",
	Rule: "The same body is the same payload however it is framed: the second is a replay, with no " +
		"further effect. A 411 is a refusal of chunks, and skips the case.",
	Why:     "A client that streams its retry, or a proxy that changes the framing, still sends the same request.",
	Sources: []Source{rfc("9112", "7.1", Must), contract("fingerprint over method, path, query and body", Must)},
	run: func(t *trial) {
		r := t.request(t.operation(), t.key(), t.payload())
		a := t.accept("with its length", r)
		r.chunked = true
		b := t.record("in chunks", "the body was sent in chunks", r, t.run.exchange(t.ctx, t.run.dialer, r))
		t.answered(b, "the request in chunks")
		if t.run.profile.maybeRunning(b) {
			b = t.retry("in chunks again", r)
		}
		if b.status == http.StatusLengthRequired {
			t.skip("the target takes no chunks: %s", b)
		}
		t.again(a, b)
	},
}, {
	Slug: "replay-4xx", Level: Should, Needs: []Need{NeedInvalid}, gated: true,
	Sequence: "a payload that is always refused, twice under one key",
	Rule:     "A refusal is repeated: the same 4xx, and no effect.",
	Why:      "A client whose request can't work must get the same refusal each time, and not that the key is taken.",
	Sources:  []Source{draft("2.6", Should), contract("terminal 4xx are stored", Must)},
	run: func(t *trial) {
		r := t.request(t.variant(*t.run.target.Invalid), t.key(), t.payload())
		a := t.send("the first request", r)
		if !a.refused() {
			t.inconclusive("the response of the target's invalid operation was %s", a)
		}
		b := t.retry("the second", r)
		t.want(b.status == a.status, fmt.Sprintf("status %d", a.status), b)
		if b.refused() {
			t.effect(0)
		}
	},
}, {
	Slug: "replay-interim", Level: Must, Needs: []Need{NeedInterim}, gated: true,
	Sequence: "an operation that sends a 1xx first, twice",
	Rule:     "The final response is replayed, not the informational one before it.",
	Why:      "A recorder that keeps the first status it sees responds to the retry with 103 and nothing after it.",
	Sources:  []Source{rfc("9110", "15.2", Must), contract("replay: same status", Must)},
	run: func(t *trial) {
		o := t.use(*t.run.target.Interim)
		r := t.request(o, t.key(), t.payload())
		a := t.accept("the first request", r)
		if len(a.interim) == 0 && !a.resent { // a connection that broke took it away, and a is a replay already
			t.inconclusive("the target's interim operation sent no informational response")
		}
		b := t.retry("the second", r)
		t.want(t.run.alike(a, b), "the same response again, "+a.String(), t.unlike(a, b))
		if !t.ended() {
			t.proven(o, a, b)
		}
	},
}}

// elsewhere returns the headers of a client that came by another network and proxy. Its Accept asks for what a is.
func (t *trial) elsewhere(a *answer) []field {
	const address = "203.0.113.7" // RFC 5737
	fields := []field{{"X-Forwarded-For", address}, {"X-Real-IP", address}, {"Forwarded", "for=" + address}}
	mediaType, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
	return append(fields, field{"Accept", strings.TrimPrefix(mediaType+", */*;q=0.5", ", ")})
}

// origin returns the declared origin of pages, or the target's own.
func (t *trial) origin() string {
	if t.run.target.Origin != "" {
		return t.run.target.Origin
	}
	base, _ := t.run.target.base() // Validate has checked it
	return base.Scheme + "://" + base.Host
}

// again judges whether the second response is a replay of the first.
func (t *trial) again(first, second *answer) {
	t.want(t.run.alike(first, second), "the same response again, "+first.String(), t.unlike(first, second))
	if t.fx() {
		t.effect(1)
		return
	}
	if !t.ended() {
		t.proven(t.operation(), first, second)
	}
}

// decoded returns the content of a response's body without its encoding.
func decoded(a *answer) ([]byte, error) {
	switch coding := strings.ToLower(strings.TrimSpace(a.header.Get("Content-Encoding"))); coding {
	case "", "identity":
		if bytes.HasPrefix(a.body, []byte("\x1f\x8b")) {
			return nil, errors.New("gzip that is not declared")
		}
		return a.body, nil
	case "gzip", "x-gzip":
		zr, err := gzip.NewReader(bytes.NewReader(a.body))
		if err != nil {
			return nil, errors.New("its Content-Encoding is gzip, and its body is not")
		}
		content, err := io.ReadAll(io.LimitReader(zr, maxAnswer))
		if err != nil {
			return nil, fmt.Errorf("gzip that is broken: %w", err)
		}
		return content, nil
	default:
		return nil, fmt.Errorf("the coding %q, which was not accepted", excerpt(coding))
	}
}
