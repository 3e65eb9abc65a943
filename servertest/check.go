package servertest

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/redo-go/redo/conformance"
)

// Check tries a handler against the rules of the Idempotency-Key, so that a team can hold its own service to them:
//
//	func TestIdempotency(t *testing.T) {
//		servertest.Check(t, handler, conformance.Target{
//			Operation: conformance.Operation{Method: "POST", Path: "/orders", Body: `{"item":"{{payload}}"}`},
//			Effects:   &conformance.Effects{ResponseID: "id"},
//		})
//	}
//
// The handler is served on a loopback socket, whose address becomes the target's BaseURL. With a nil handler the target's
// own BaseURL is tried.
//
// Each case is a subtest named by its slug, after the run: -run selects among the subtests, [conformance.Only] among the
// cases. A broken MUST fails its subtest, and so does one that can't be shown, and an expected failure that passes. A
// broken SHOULD is logged; see [CheckStrictly]. What was skipped or blocked is skipped. A wrong target, and a run that
// did not get through, ends the test.
func Check(t *testing.T, h http.Handler, target conformance.Target, opts ...conformance.Option) {
	t.Helper()
	check(t, h, target, false, opts)
}

// CheckStrictly is Check in which rules of all levels count.
func CheckStrictly(t *testing.T, h http.Handler, target conformance.Target, opts ...conformance.Option) {
	t.Helper()
	check(t, h, target, true, opts)
}

func check(t *testing.T, h http.Handler, target conformance.Target, strict bool, opts []conformance.Option) {
	t.Helper()
	if h != nil {
		srv := httptest.NewUnstartedServer(h)
		srv.Config.ErrorLog = log.New(io.Discard, "", 0) // broken requests are what it is about
		srv.Start()
		t.Cleanup(srv.Close)
		target.BaseURL = srv.URL
	}
	report, err := conformance.Run(t.Context(), target, opts...)
	for _, res := range report.Results {
		t.Run(res.Slug, func(t *testing.T) {
			t.Helper()
			switch text, how := judged(res, strict); how {
			case checkFailed:
				t.Error(text)
			case checkSkipped:
				t.Skip(text)
			case checkLogged:
				t.Log(text)
			}
		})
	}
	if err != nil {
		t.Fatalf("servertest: %v", err)
	}
	t.Logf("seed %d", report.Seed)
}

// How a result is told to the test.
const (
	checkPassed = iota
	checkLogged
	checkSkipped
	checkFailed
)

func judged(res conformance.Result, strict bool) (text string, how int) {
	switch {
	case res.Expected != "" && res.Verdict == conformance.Pass:
		return "passes, but is expected to fail: " + res.Expected, checkFailed
	case res.Failed(strict), res.Verdict == conformance.Harness:
		return "\n" + res.String(), checkFailed
	case res.Expected != "":
		return "expected to fail (" + res.Expected + ")\n" + res.String(), checkSkipped
	case res.Reason != "":
		return string(res.Verdict) + ": " + res.Reason, checkSkipped
	case res.Verdict == conformance.Warn:
		return "\n" + res.String(), checkLogged
	case res.Verdict == conformance.Info && len(res.Findings) > 0:
		text := res.Findings[0].Actual
		for _, f := range res.Findings[1:] {
			text += "; " + f.Actual
		}
		return text, checkLogged
	}
	return "", checkPassed
}
