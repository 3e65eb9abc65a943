package conformance

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// crowded is a front that returns 500 to the first run of each case except the controls, like a server that can't serve
// two clients at a time.
func crowded(next http.Handler) http.Handler {
	var mu sync.Mutex
	var accounts []string
	return rerouting(func(w http.ResponseWriter, r *http.Request, _ string, body []byte) bool {
		account := accountOf(body)
		if account == "" || strings.HasSuffix(account, "b") {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		if !slices.Contains(accounts, account) {
			accounts = append(accounts, account)
		}
		if slices.Index(accounts, account) < len(controlCases) {
			return false
		}
		http.Error(w, "crowded", http.StatusInternalServerError)
		return true
	})(next)
}

func TestFailureOfTrafficAloneIsAFindingOfItsOwn(t *testing.T) {
	failed := Result{Slug: "x", Level: Must, Verdict: Fail, Findings: []Finding{{Fail, "201", "500"}},
		Exchanges: []*Exchange{{Label: "first"}}}
	passed := Result{Slug: "x", Level: Must, Verdict: Pass}
	res := settled(failed, passed)
	require.Equal(t, Warn, res.Verdict)
	require.True(t, res.OnlyConcurrent)
	require.Equal(t, []Finding{{Warn, "201", onlyConcurrent + ": 500"}}, res.Findings)
	require.Equal(t, failed.Exchanges, res.Exchanges) // the evidence is the failure's
}

func TestSecondRunOfACaseHolds(t *testing.T) {
	result := func(v Verdict) Result {
		return Result{Slug: "x", Verdict: v, Findings: []Finding{{v, "", string(v)}}}
	}
	for _, c := range []struct {
		first, second, want Verdict
		traffic             bool
	}{
		{Fail, Fail, Fail, false},
		{Fail, Warn, Warn, false},
		{Fail, Pass, Warn, true},
		{Warn, Fail, Fail, false},
		{Warn, Pass, Pass, true},
		{Warn, Harness, Harness, false},
		{Warn, Skip, Skip, false},
		{Fail, Inconclusive, Inconclusive, false},
		{Fail, Info, Warn, true},
		{Inconclusive, Pass, Pass, false},
		{Inconclusive, Fail, Fail, false},
		{Harness, Pass, Pass, false},
	} {
		res := settled(result(c.first), result(c.second))
		require.Equal(t, c.want, res.Verdict, "%s, then %s", c.first, c.second)
		require.Equal(t, c.traffic, res.OnlyConcurrent, "%s, then %s", c.first, c.second)
	}
}

// A case that fails beside others, and passes alone, is reported once and does not fail the run.
func TestCaseIsRepeatedWithNothingElseGoingOn(t *testing.T) {
	l := newLab(t)
	l.front = crowded
	results := map[string]Verdict{}
	report, err := Run(t.Context(), l.start().target(), Only(slugEffect, slugMismatch, "key-too-long", "key-missing"),
		Progress(func(res Result) {
			require.NotContains(t, results, res.Slug)
			results[res.Slug] = res.Verdict
		}))
	require.NoError(t, err)
	require.Zero(t, report.ExitCode(false), "%s", trouble(report))
	for _, res := range report.Results {
		require.Equal(t, res.Verdict, results[res.Slug])
		require.NotContains(t, []Verdict{Fail, Inconclusive}, res.Verdict, "%s", trouble(report))
	}
	res, _ := report.Result("key-too-long")
	require.Equal(t, Warn, res.Verdict)
	require.True(t, res.OnlyConcurrent)
	require.Contains(t, res.Findings[0].Actual, onlyConcurrent)
	res, _ = report.Result(slugEffect) // its first run had no success to begin with
	require.Equal(t, Pass, res.Verdict)
	require.Len(t, results, len(report.Results))
}

// More effects than keys prove a failure in any traffic.
func TestProofIsNotRepeated(t *testing.T) {
	target, n := forgetful(t, func(int64) string { return `{"ok":true}` })
	target.Effects = &Effects{Func: func(context.Context, string) (int, error) { return int(n.Load()), nil }}
	report, err := Run(t.Context(), target, Only(slugEffect), Concurrency(1))
	require.NoError(t, err)
	res, _ := report.Result(slugEffect)
	require.Equal(t, Fail, res.Verdict)
	require.Equal(t, int64(1+2+4+3), n.Load()) // the controls, and one run of the case
}

func TestControlRunsTwiceAndNeverWithAUsedKey(t *testing.T) {
	t.Parallel() // runs spend their time waiting
	l := newLab(t)
	var mu sync.Mutex
	sent := map[string]int{}
	l.front = keyed(func(w http.ResponseWriter, _ *http.Request, key string, _ []byte) bool {
		mu.Lock()
		defer mu.Unlock()
		sent[key]++
		http.Error(w, "no", http.StatusBadRequest)
		return true
	})
	_, err := Run(t.Context(), l.start().target(), Only(slugBaseline))
	require.NoError(t, err)
	require.Len(t, sent, 2)
	for key, times := range sent {
		require.Equal(t, 1, times, key)
	}
}

func TestFailFastEndsTheRunAtTheFirstBrokenMust(t *testing.T) {
	l := newLab(t)
	l.front = rerouting(func(_ http.ResponseWriter, r *http.Request, _ string, _ []byte) bool {
		r.Header.Set("Idempotency-Key", freshKey())
		return false
	})
	report, err := Run(t.Context(), l.start().target(), FailFast())
	require.NoError(t, err)
	require.Equal(t, ExitFailed, report.ExitCode(false))
	require.Equal(t, "fail-fast", report.Stopped.Reason)
	failed := 0
	for _, res := range report.Results {
		if res.Verdict == Fail {
			failed++
			require.Equal(t, res.Slug+" failed", report.Stopped.Message)
		}
	}
	require.Equal(t, 1, failed)

	one := newLab(t)
	report, err = Run(t.Context(), one.start().target(), FailFast(), Only("replay"))
	require.NoError(t, err)
	require.Nil(t, report.Stopped)
	require.Zero(t, report.ExitCode(true), texts(report))
}
