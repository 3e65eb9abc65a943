package servertest

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/redo-go/redo/conformance"
)

// Check tests a handler against the rules of the Idempotency-Key, so that a team can check its own service:
//
//	func TestIdempotency(t *testing.T) {
//		servertest.Check(t, handler, conformance.Target{
//			Operation: conformance.Operation{Method: "POST", Path: "/orders", Body: `{"item":"{{payload}}"}`},
//			Effects:   &conformance.Effects{ResponseID: "id"},
//		})
//	}
//
// Check serves the handler on a loopback socket, whose address becomes the target's BaseURL. With a nil handler it
// uses the target's own BaseURL.
//
// After the run, each case is a subtest named by its slug. The flag -run selects among the subtests, and
// [conformance.Only] selects among the cases. A broken MUST fails its subtest. So does a MUST that can't be shown,
// and an expected failure that passes. A broken SHOULD is logged; see [CheckStrictly]. A skipped case is a skipped
// subtest, and so is a case that had not begun when the run ended early. A wrong target ends the test, and so does a
// run that did not finish.
func Check(t *testing.T, h http.Handler, target conformance.Target, opts ...conformance.Option) {
	t.Helper()
	check(t, h, target, false, opts)
}

// CheckStrictly is like Check, but rules of all levels count.
func CheckStrictly(t *testing.T, h http.Handler, target conformance.Target, opts ...conformance.Option) {
	t.Helper()
	check(t, h, target, true, opts)
}

func check(t *testing.T, h http.Handler, target conformance.Target, strict bool, opts []conformance.Option) {
	t.Helper()
	if h != nil {
		srv := httptest.NewUnstartedServer(h)
		srv.Config.ErrorLog = log.New(io.Discard, "", 0) // broken requests are part of the cases
		srv.Start()
		t.Cleanup(srv.Close)
		target.BaseURL = srv.URL
	}
	report, err := conformance.Run(t.Context(), target, opts...)
	for _, res := range report.Results {
		t.Run(res.Slug, func(t *testing.T) {
			t.Helper()
			if report.Stopped != nil && res.Verdict == conformance.Harness && len(res.Exchanges) == 0 {
				t.Skip(res.Reason) // the reason for the end of the run fails the test
			}
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

// These constants are the ways to report a result to the test.
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
