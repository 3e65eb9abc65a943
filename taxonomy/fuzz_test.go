package taxonomy

import (
	"net/http"
	"testing"
)

// FuzzClassify holds what is true of every answer, whatever a server sends.
func FuzzClassify(f *testing.F) {
	f.Add(200, "", "", "", "", []byte(nil))
	f.Add(409, string(InFlight), "application/json", "true", "replayed", []byte(`{"error":{"code":"IDEMPOTENCY_CONFLICT"}}`))
	f.Add(422, "VALIDATION.amount", "application/problem+json", "", "", []byte(`{"code":"x","retryable":true}`))
	f.Add(500, "", "text/html", "false", "stored", []byte(`<html>`))
	f.Add(409, string(Duplicate), "application/problem+json", "true", "", []byte(`{"code":"PROVIDER.duplicate"}`))
	f.Fuzz(func(t *testing.T, status int, errorCode, contentType, directive, marker string, body []byte) {
		a := Answer{
			Sent: true, Status: status, Body: body, Directives: DefaultDirectives,
			Header: http.Header{
				"Error-Code": {errorCode}, "Content-Type": {contentType}, "X-Should-Retry": {directive}, "Idempotency-Status": {marker},
			},
		}
		v := Classify(a)
		if again := Classify(a); again != v {
			t.Fatalf("not a function: %+v, then %+v", v, again)
		}
		if status == 0 {
			return // a transport failure, of which the header and the body are no part
		}
		switch {
		case status >= 200 && status < 300 && v != (Verdict{Class: ClassSuccess, Effect: Applied, Final: v.Final}):
			t.Fatalf("a 2xx is %+v", v)
		case status >= 100 && status < 400:
			if v.Code != "" || v.Class != ClassSuccess || v.Said {
				t.Fatalf("%d is %+v", status, v)
			}
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
			t.Fatalf("nothing says that it was applied: %+v", v)
		case v.Effect == NotApplied && (status >= 500 && status != 501 && status != 505 || status == 408):
			t.Fatalf("%d proves no refusal: %+v", status, v)
		}
	})
}
