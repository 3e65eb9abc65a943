package conformance

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/racetest"
)

// forgetful is a server that knows nothing of keys, and counts.
func forgetful(t *testing.T, answer func(n int64) string) (Target, *atomic.Int64) {
	n := new(atomic.Int64)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		_, _ = io.WriteString(w, answer(n.Add(1)))
	}))
	t.Cleanup(srv.Close)
	return Target{
		BaseURL:   srv.URL,
		Operation: Operation{Method: "POST", Path: "/orders", Body: `{"account":"{{case}}","item":"{{payload}}"}`},
	}, n
}

func constant(int64) string { return `{"ok":true,"id":"1"}` }

// This is the promise of the package: an unknown is never a pass.
func TestServerWithoutDeduplicationAndAConstantBodyIsInconclusive(t *testing.T) {
	target, _ := forgetful(t, constant)
	report, err := Run(t.Context(), target)
	require.NoError(t, err)
	for _, res := range report.Results {
		switch {
		case res.Verdict == Pass:
			// These judge a single response. net/http refuses control characters for any handler.
			require.Contains(t, []string{slugBaseline, "key-control-bytes"}, res.Slug)
		case res.Slug == slugOracle, res.Slug == slugStatus, res.Slug == slugBody:
			require.Equal(t, Inconclusive, res.Verdict)
		}
	}
	for _, c := range Cases() {
		res, ok := report.Result(c.Slug)
		require.True(t, ok)
		if c.gated {
			require.Contains(t, []Verdict{Inconclusive, Skip, Blocked}, res.Verdict, c.Slug)
		}
	}
	require.Equal(t, ExitFailed, report.ExitCode(false))
}

// The same id in each response counts nothing: it must not be taken for one effect.
func TestIDThatIsNoneCountsNothing(t *testing.T) {
	target, _ := forgetful(t, constant)
	target.Effects = &Effects{ResponseID: "id"}
	report, err := Run(t.Context(), target)
	require.NoError(t, err)
	for _, c := range Cases() {
		if res, _ := report.Result(c.Slug); c.gated || c.Slug == slugEffect {
			require.Contains(t, []Verdict{Inconclusive, Skip, Blocked}, res.Verdict, c.Slug)
		}
	}
	res, _ := report.Result(slugDistinct)
	require.Equal(t, Inconclusive, res.Verdict)
}

func TestServerWithoutDeduplicationFailsByItsIDs(t *testing.T) {
	target, _ := forgetful(t, func(n int64) string { return fmt.Sprintf(`{"id":%d}`, n) })
	target.Effects = &Effects{ResponseID: "id"}
	report, err := Run(t.Context(), target, Only(slugEffect))
	require.NoError(t, err)
	require.Equal(t, []string{slugEffect}, broken(report))
	res, _ := report.Result(slugEffect)
	require.Equal(t, "1 effect", res.Findings[0].Expected)
	require.Equal(t, "3 effects", res.Findings[0].Actual)
	require.Equal(t, 3, *res.Effects)
}

func TestServerWithoutDeduplicationFailsByItsBodies(t *testing.T) {
	target, _ := forgetful(t, func(n int64) string { return fmt.Sprintf(`{"id":%d}`, n) })
	report, err := Run(t.Context(), target, Only("replay"))
	require.NoError(t, err)
	require.Equal(t, []string{slugBody}, broken(report))
	res, _ := report.Result(slugStatus)
	require.Equal(t, Blocked, res.Verdict) // equal statuses of three runs are no replay's
}

func TestReferencePassesWithEveryWayToCount(t *testing.T) {
	racetest.Repeats(t) // TestReferencePassesInEveryStoreModeAndProfile runs each case
	t.Parallel()        // runs spend their time waiting
	for name, effects := range map[string]*Effects{
		"the ids of responses":  {ResponseID: "id"},
		"a count of everything": {URL: "/effects?all=1", Path: "count"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			target := l.start().target()
			target.Effects = effects
			report, err := Run(t.Context(), target, Only("ctl", "key", "replay-effect", "mismatch", "conc-one-effect",
				"conc-history", "fault-lost-response", "late"))
			require.NoError(t, err)
			require.Empty(t, broken(report), texts(report))
			require.Zero(t, report.Count()[Inconclusive], texts(report))
			require.Zero(t, report.ExitCode(true))
		})
	}
}

// The cases of level INFO only record.
func TestRecordedBehaviourIsTheTargets(t *testing.T) {
	t.Parallel() // runs spend their time waiting
	record := func(t *testing.T, change func(l *lab)) map[string]string {
		l := newLab(t)
		change(l)
		report, err := Run(t.Context(), l.start().target(), Only("key-sf-quoted", "key-repeated", "mismatch-json-equal",
			"replay-cookie-date"))
		require.NoError(t, err)
		said := map[string]string{}
		for _, res := range report.Results {
			if res.Level == Inform {
				require.Equal(t, Info, res.Verdict)
				for _, f := range res.Findings {
					said[res.Slug] += f.Actual + ";"
				}
			}
		}
		return said
	}
	reference := record(t, func(*lab) {})
	require.Equal(t, map[string]string{
		"key-sf-quoted":      "the same: it was replayed;",
		"key-repeated":       "the same: it was replayed;",
		"replay-cookie-date": "Date: made anew;Set-Cookie: left out of the replay;",
		"mismatch-json-equal": "refused as another payload: " +
			`409, code CONFLICT.idempotency.payload_mismatch;`,
	}, reference)
	other := record(t, func(l *lab) {
		l.front = rerouting(func(w http.ResponseWriter, r *http.Request, key string, _ []byte) bool {
			if len(r.Header["Idempotency-Key"]) > 1 || len(key) > 0 && key[0] == '"' {
				return refuse(w, http.StatusBadRequest, "VALIDATION.idempotency_key.malformed")
			}
			return false
		})
	})
	require.Contains(t, other["key-sf-quoted"], "refused: 400")
	require.Contains(t, other["key-repeated"], "refused: 400")
}

// Without a counter the reference is judged by its responses. An operation whose responses are all equal is not.
func TestReferenceWithoutACounterPassesWhereResponsesDiffer(t *testing.T) {
	t.Parallel() // runs spend their time waiting
	l := newLab(t)
	target := l.start().target()
	target.Effects = nil
	report, err := Run(t.Context(), target)
	require.NoError(t, err)
	require.Empty(t, broken(report), texts(report))
	require.Zero(t, report.Count()[Blocked], texts(report))
	var unsure, skipped []string
	for _, res := range report.Results {
		switch res.Verdict {
		case Inconclusive:
			unsure = append(unsure, res.Slug)
		case Skip:
			skipped = append(skipped, res.Slug)
		}
	}
	require.Equal(t, []string{"replay-204", "replay-large"}, unsure)
	require.Equal(t, []string{
		"ctl-distinct-keys", "key-optional", "key-no-truncate", "key-equal-payload", "key-case", "replay-effect",
		"conc-one-effect", "conc-history",
		"fault-lost-response", "fault-truncated-request", "restart-durable", "late-effects",
	}, skipped)
	require.Equal(t, ExitFailed, report.ExitCode(false)) // a MUST could not be shown
}

// A server without deduplication whose responses differ is found without a counter, wherever a replay is judged.
func TestMutantsAreFoundWithoutACounter(t *testing.T) {
	racetest.Repeats(t) // TestReferencePassesInEveryStoreModeAndProfile runs each case
	t.Parallel()        // runs spend their time waiting
	l := newLab(t)
	l.front = keyed(func(_ http.ResponseWriter, r *http.Request, _ string, _ []byte) bool {
		r.Header.Set("Idempotency-Key", freshKey())
		return false
	})
	target := l.start().target()
	target.Effects = nil
	report, err := Run(t.Context(), target)
	require.NoError(t, err)
	require.Contains(t, broken(report), slugBody)
	for _, c := range Cases() {
		// A payload that is refused each time is refused each time, with and without a record.
		// Nor does another operation, or another principal, get the first one's response.
		own := []string{"replay-4xx", "mismatch-path", "mismatch-method", slugPrincipal}
		if res, _ := report.Result(c.Slug); c.gated && !slices.Contains(own, c.Slug) {
			require.NotContains(t, []Verdict{Pass, Warn}, res.Verdict, "%s %s", c.Slug, res)
		}
	}
}

// Headers that are not there can't be replayed, and prove nothing.
func TestReplayWithoutHeadersIsSkipped(t *testing.T) {
	l := newLab(t)
	l.front = rewriting(func(r *http.Request, a *httptest.ResponseRecorder) {
		if r.Method != http.MethodGet {
			clear(a.Header())
			a.Header()["Content-Type"] = nil // net/http adds none then
		}
	})
	target := l.start().target()
	target.Profile = "ietf"
	report, err := Run(t.Context(), target, Only("replay-headers"))
	require.NoError(t, err)
	res, _ := report.Result("replay-headers")
	require.Equal(t, Skip, res.Verdict, "%s", trouble(report))
}
