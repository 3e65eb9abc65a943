package taxonomy

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
)

// FuzzClassify checks rules that hold for every response of any server.
func FuzzClassify(f *testing.F) {
	f.Add(200, "", "", "", "", []byte(nil))
	f.Add(302, string(Duplicate), "", "true", "replayed", []byte(nil))
	f.Add(409, string(InFlight), "application/json", "true", "replayed",
		[]byte(`{"error":{"code":"IDEMPOTENCY_CONFLICT"}}`))
	f.Add(422, "VALIDATION.amount", "application/problem+json", "", "", []byte(`{"code":"x","retryable":true}`))
	f.Add(500, "", "text/html", "false", "stored", []byte(`<html>`))
	f.Add(409, string(Duplicate), "application/problem+json", "true", "", []byte(`{"code":"PROVIDER.duplicate"}`))
	f.Add(422, "", "application/json", "", "", []byte(`{"status":422,"errorCode":704,"errorType":"validation"}`))
	f.Add(400, "a.b#ThrottlingException:http://x", "application/x-amz-json-1.1", "", "", []byte(`{"__type":"a#b"}`))
	f.Add(400, "", "text/xml", "", "",
		[]byte(`<Response><Errors><Error><Code>IdempotentParameterMismatch</Code></Error></Errors></Response>`))
	f.Add(409, "", "", "", "",
		[]byte(`{"error":{"errors":[{"reason":"idempotent_creation_conflict"}]},"details":[{}]}`))
	f.Add(422, "", "", "", "", []byte(`{"errors":[{"code":1,"category":"own word"}],"name":"transfer_in_progress"}`))
	f.Fuzz(func(t *testing.T, status int, errorCode, contentType, directive, marker string, body []byte) {
		a := Answer{
			Sent: true, Status: status, Body: body, Directives: DefaultDirectives,
			Codes: map[string]Code{
				"own word": OutcomeUnknown, "hidden": "", "caller": CallerCanceled, "bad": "no code",
			},
			Markers: []string{"Acme-Replay"},
			Header: http.Header{
				"Error-Code": {errorCode}, "X-Amzn-Errortype": {errorCode}, "Content-Type": {contentType},
				"X-Should-Retry": {directive}, "Idempotency-Status": {marker}, "Acme-Replay": {marker},
			},
		}
		v := Classify(a)
		if again := Classify(a); again != v {
			t.Fatalf("not a function: %+v, then %+v", v, again)
		}
		if status == 0 {
			return // a transport failure, of which the header and the body are no part
		}
		if status >= 100 && status < 400 {
			requireAccepted(t, status, v)
			return
		}
		_, family := families[v.Code.Family()]
		switch {
		case !family || !isCode(v.Code):
			t.Fatalf("code %q has no known family", v.Code)
		case v.Code.In(Caller):
			t.Fatalf("the server spoke for the caller: %+v", v)
		case v.Code.neverRetried() && v.Class != ClassTerminal:
			t.Fatalf("a never-retried code is retried: %+v", v)
		case v.Code.In(Duplicate) != (v.Class == ClassSuccess):
			t.Fatalf("only a duplicate is a success: %+v", v)
		case v.Final && v.Class == ClassTransient:
			t.Fatalf("final and transient: %+v", v)
		case v.Effect == Applied && !v.Code.In(Duplicate) && !v.Code.In(ResultNotStored):
			t.Fatalf("nothing proves that it was applied: %+v", v)
		case v.Effect == NotApplied && !isRefusal(status) && status != http.StatusTooManyRequests:
			t.Fatalf("%d proves no refusal: %+v", status, v)
		case v.Effect == NotApplied && status == http.StatusConflict && !v.Said:
			t.Fatalf("an unrecognized 409 proves no refusal: %+v", v)
		case v.Effect == NotApplied && readReport(a).unsettled:
			t.Fatalf("an unsettled operation proves no refusal: %+v", v)
		}
	})
}

func requireAccepted(t *testing.T, status int, v Verdict) {
	t.Helper()
	want := Verdict{Class: ClassSuccess, Final: v.Final}
	switch {
	case status >= 200 && status < 300:
		want.Effect = Applied
	case status >= 300 && status != http.StatusNotModified:
		want.Code, want.Class = RedirectNotFollowed, ClassTerminal
	}
	if v != want {
		t.Fatalf("%d is %+v", status, v)
	}
}

// FuzzWords checks rules that hold for every word: its parts are bounded, and nothing panics.
func FuzzWords(f *testing.F) {
	for _, word := range []string{
		"", "in_flight", "TransferInProgress", "https://a.test/b#c/", "a.b#C:http://x", ":", "é",
	} {
		f.Add(word)
	}
	f.Fuzz(func(t *testing.T, word string) {
		if short := shortForm(word); !strings.Contains(word, short) {
			t.Fatalf("%q is no part of %q", short, word)
		}
		spaced := separate(word)
		if !strings.HasPrefix(spaced, " ") || !strings.HasSuffix(spaced, " ") || strings.Contains(spaced, "  ") {
			t.Fatalf("%q has no single space at each boundary", spaced)
		}
		if bytes.ContainsFunc([]byte(spaced), func(r rune) bool { return r >= 'A' && r <= 'Z' || r > 127 }) {
			t.Fatalf("%q is not in lower-case ASCII", spaced)
		}
		if len(word) > maxWord && isUnsettled(word) {
			t.Fatal("a word that is too long is read")
		}
	})
}

// A body that can't be unpacked, and one that unpacks to too much, are read as none.
func FuzzUnpacked(f *testing.F) {
	document := packed(f, `{"code":"CONFLICT.idempotency.in_flight"}`)
	f.Add(document)
	f.Add(document[:len(document)-8])
	f.Add(append(document, document...))
	f.Add(packed(f, strings.Repeat("x", maxDocument+1)))
	f.Add([]byte(`{"code":"x"}`))
	h := http.Header{"Content-Encoding": {"gzip"}, "Content-Type": {"text/xml"}}
	f.Fuzz(func(t *testing.T, body []byte) {
		plain := unpacked(h, body)
		if len(plain) > maxDocument+1 {
			t.Fatalf("%d bytes were unpacked to %d", len(body), len(plain))
		}
		if again := unpacked(h, packed(t, string(plain))); !bytes.Equal(plain, again) {
			t.Fatalf("%q was read as %q", plain, again)
		}
		if raw := unpacked(http.Header{}, body); !bytes.Equal(raw, body) {
			t.Fatalf("a body without a coding was changed: %q", raw)
		}
		Classify(Answer{Status: http.StatusConflict, Header: h, Body: body})
	})
}
