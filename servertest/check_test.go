package servertest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/conformance"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/memstore"
)

func orders() http.Handler {
	var n atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id":%d}`, n.Add(1))
	})
}

func orderTarget() conformance.Target {
	required := true
	return conformance.Target{
		Operation: conformance.Operation{Method: "POST", Path: "/orders", Body: `{"item":"{{payload}}"}`},
		Key:       conformance.Key{Required: &required, Strict: true},
		Effects:   &conformance.Effects{ResponseID: "id"},
	}
}

func TestReferenceIsCheckedStrictly(t *testing.T) {
	CheckStrictly(t, server.Middleware(memstore.New(), server.Required(), server.SharedKeys())(orders()), orderTarget())
}

func TestServerElsewhereIsChecked(t *testing.T) {
	srv := httptest.NewServer(server.Middleware(memstore.New(), server.Required(), server.SharedKeys())(orders()))
	t.Cleanup(srv.Close)
	target := orderTarget()
	target.BaseURL = srv.URL
	Check(t, nil, target, conformance.Only("replay-effect"))
}

// A defect that is known does not break the build until it is gone.
func TestExpectedFailureIsSkipped(t *testing.T) {
	Check(t, orders(), orderTarget(), conformance.Only("replay-effect"),
		conformance.ExpectFailure("replay-effect", "not built yet"))
}

// Cases that did not run have nothing to report. Sixty failures would hide the reason for the end of the run.
func TestUnreachableServerIsOneFailure(t *testing.T) {
	if os.Getenv("REDO_TEST_UNREACHABLE") != "" {
		srv := httptest.NewServer(orders())
		srv.Close()
		target := orderTarget()
		target.BaseURL = srv.URL
		Check(t, nil, target)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "REDO_TEST_UNREACHABLE=1")
	out, err := cmd.CombinedOutput()
	require.Error(t, err, "the test of an unreachable server passed")
	require.Contains(t, string(out), "servertest: conformance: target unreachable")
	require.Equal(t, 1, strings.Count(string(out), "--- FAIL"), "%s", out)
}

// The first broken MUST is the one failure of the test. The cases after it did not run.
func TestFailFastIsOneFailure(t *testing.T) {
	if os.Getenv("REDO_TEST_FAIL_FAST") != "" {
		Check(t, orders(), orderTarget(), conformance.FailFast(), conformance.Only("replay", "mismatch"))
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "REDO_TEST_FAIL_FAST=1")
	out, err := cmd.CombinedOutput()
	require.Error(t, err, "the test of a server that forgets keys passed")
	require.Contains(t, string(out), "FAIL replay-effect")
	require.Equal(t, 2, strings.Count(string(out), "--- FAIL"), "%s", out) // the test and its subtest
}

func TestResultsAreToldByTheirWeight(t *testing.T) {
	finding := []conformance.Finding{{Verdict: conformance.Fail, Expected: "this", Actual: "that"}}
	for _, c := range []struct {
		rule            string
		res             conformance.Result
		lenient, strict int
	}{
		{"a pass is silent", conformance.Result{Verdict: conformance.Pass}, checkPassed, checkPassed},
		{
			"a broken MUST fails", conformance.Result{Verdict: conformance.Fail, Findings: finding}, checkFailed,
			checkFailed,
		},
		{
			"a broken SHOULD is logged", conformance.Result{Verdict: conformance.Warn, Findings: finding},
			checkLogged, checkFailed,
		},
		{
			"a MUST that can't be shown fails",
			conformance.Result{Verdict: conformance.Inconclusive, Level: conformance.Must, Reason: "blind"},
			checkFailed, checkFailed,
		},
		{
			"a SHOULD that can't be shown is skipped",
			conformance.Result{Verdict: conformance.Inconclusive, Level: conformance.Should, Reason: "blind"},
			checkSkipped, checkFailed,
		},
		{
			"an undeclared case is skipped", conformance.Result{Verdict: conformance.Skip, Reason: "no"},
			checkSkipped, checkSkipped,
		},
		{
			"a SHOULD that is blocked is skipped", conformance.Result{Verdict: conformance.Blocked, Reason: "no"},
			checkSkipped, checkFailed,
		},
		{
			"a MUST that is blocked fails",
			conformance.Result{Verdict: conformance.Blocked, Level: conformance.Must, Reason: "no"}, checkFailed,
			checkFailed,
		},
		{
			"a recorded finding is logged", conformance.Result{Verdict: conformance.Info, Findings: finding},
			checkLogged, checkLogged,
		},
		{
			"a run that broke off fails", conformance.Result{Verdict: conformance.Harness, Reason: "ended"},
			checkFailed, checkFailed,
		},
		{
			"an expected failure is skipped",
			conformance.Result{Verdict: conformance.Fail, Expected: "known", Findings: finding}, checkSkipped,
			checkSkipped,
		},
		{
			"an expected failure that passes fails", conformance.Result{Verdict: conformance.Pass, Expected: "known"},
			checkFailed, checkFailed,
		},
	} {
		text, how := judged(c.res, false)
		require.Equal(t, c.lenient, how, c.rule)
		require.Equal(t, how == checkPassed, text == "", c.rule)
		_, how = judged(c.res, true)
		require.Equal(t, c.strict, how, c.rule)
	}
	text, _ := judged(conformance.Result{Verdict: conformance.Info, Findings: append(finding, finding...)}, false)
	require.Equal(t, "that; that", text)
	require.True(t,
		strings.Contains(conformance.Result{Verdict: conformance.Fail, Findings: finding}.String(), "expected  this"))
}
