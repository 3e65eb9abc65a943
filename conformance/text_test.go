package conformance

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// forgetsKeys gives each request another key.
func forgetsKeys(l *lab) {
	l.front = keyed(func(_ http.ResponseWriter, r *http.Request, _ string, _ []byte) bool {
		r.Header.Set("Idempotency-Key", freshKey())
		return false
	})
}

func TestEffectsComeFirstInTheEvidence(t *testing.T) {
	l := newLab(t)
	forgetsKeys(l)
	report, err := Run(t.Context(), l.start().target(), Only("mismatch-body", "replay-headers", "replay-body"))
	require.NoError(t, err)
	for slug, want := range map[string]Finding{
		"mismatch-body":  {Fail, "1 effect", "2 effects"},
		"replay-headers": {Fail, "at most 1 effect, one for each key", "3 effects"},
		"replay-body":    {Fail, "at most 1 effect, one for each key", "3 effects"},
	} {
		res, _ := report.Result(slug)
		require.Equal(t, want, res.Findings[0], slug)
		require.Regexp(t, `(?m)^  effects   \d+\n  expected  .*effect`, res.String())
	}
}

// A refusal that is missing shows the effect of the request. A refusal of another status has none to show.
func TestEvidenceOfAMissingRefusalHasItsEffect(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*lab)
		effects int
	}{
		"served":            {servesWithoutKeys, 1},
		"refused otherwise": {func(l *lab) { l.front = teapots }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			c.change(l)
			report, err := Run(t.Context(), l.start().target(), Only("key-missing"))
			require.NoError(t, err)
			res, _ := report.Result("key-missing")
			require.Equal(t, Warn, res.Verdict)
			require.NotNil(t, res.Effects)
			require.Equal(t, c.effects, *res.Effects)
		})
	}
}

// servesWithoutKeys serves requests without a key, which the description denies.
func servesWithoutKeys(l *lab) {
	l.optional = true
	l.describe = func(t *Target) { *t.Key.Required = true }
}

// teapots replaces the status 400.
func teapots(next http.Handler) http.Handler {
	return rewriting(func(_ *http.Request, a *httptest.ResponseRecorder) {
		if a.Code == http.StatusBadRequest {
			a.Code = http.StatusTeapot
		}
	})(next)
}

// A message that is equal to an earlier one of the case is a reference. A different one is shown.
func TestRepeatsAreCollapsed(t *testing.T) {
	l := newLab(t)
	l.front = rewriting(func(_ *http.Request, a *httptest.ResponseRecorder) {
		if isReplay(a) {
			setBody(a, `{"id":"another"}`)
		}
	})
	report, err := Run(t.Context(), l.start().target(), Only("replay-body"))
	require.NoError(t, err)
	res, _ := report.Result("replay-body")
	text := res.String()
	require.Equal(t, 1, strings.Count(text, "> Idempotency-Key: "))
	require.Equal(t, 2, strings.Count(text, "> the same as at "))
	require.Equal(t, 1, strings.Count(text, `< {"id":"another"}`))
	require.Equal(t, 1, strings.Count(text, "< the same as at "))
	require.Equal(t, 1, strings.Count(text, "curl -gsi"))
	first := regexp.MustCompile(`([0-9.]+ ms)  the first request`).FindStringSubmatch(text)[1]
	require.Contains(t, text, "> the same as at "+first)
}

// A reader does not know the short names of the cases' definitions.
func TestTextsHaveWordsForTheShortNames(t *testing.T) {
	short := regexp.MustCompile(`\b(E|K\d?|B\d|A\d|p2|fx)\b`)
	for _, c := range Cases() {
		for _, text := range []string{c.Sequence, c.Rule, c.Why} {
			require.NotRegexp(t, short, text, c.Slug)
		}
	}
	for need, text := range needTexts {
		require.NotRegexp(t, short, text+" "+string(need))
	}
	l := newLab(t)
	forgetsKeys(l)
	report, err := Run(t.Context(), l.start().target(), Only("replay", "mismatch", "scope", "conc-one-effect", "key"))
	require.NoError(t, err)
	for _, res := range report.Results {
		for _, f := range res.Findings {
			require.NotRegexp(t, short, f.Expected+" "+f.Actual, res.Slug)
		}
		for _, x := range res.Exchanges {
			require.NotRegexp(t, short, x.Label+" "+x.Delivery, res.Slug)
		}
	}
	require.Regexp(t, short, "one of B1 and B2") // the expression finds them
}

func TestMissingPathIsNamedWithItsURL(t *testing.T) {
	t.Parallel() // runs spend their time waiting
	start := func(t *testing.T, change func(*Target)) (Target, Report, error) {
		t.Helper()
		target := newLab(t).start().target()
		change(&target)
		report, err := Run(t.Context(), target, Only("mismatch-path"))
		return target, report, err
	}
	t.Run("operation", func(t *testing.T) {
		target, report, err := start(t, func(target *Target) { target.Operation.Path = "/nowhere" })
		require.NoError(t, err)
		res, _ := report.Result(slugBaseline)
		require.Contains(t, res.Findings[0].Actual, "404 404 page not found, from POST "+target.BaseURL+"/nowhere")
	})
	t.Run("second operation", func(t *testing.T) {
		target, report, err := start(t, func(target *Target) { target.Second.Path = "/nowhere" })
		require.NoError(t, err)
		res, _ := report.Result("mismatch-path")
		require.Contains(t, res.Reason, "POST "+target.BaseURL+"/nowhere, was 404")
	})
	t.Run("counter", func(t *testing.T) {
		target, _, err := start(t, func(target *Target) { target.Effects.URL = "/nowhere?account={{case}}" })
		require.ErrorContains(t, err, "GET "+target.BaseURL+"/nowhere?account=")
		require.ErrorContains(t, err, ": 404 404 page not found")
	})
}

// A curl line has the secrets of both principals as variables, and the headers that make a request fail.
func TestCurlLinesHaveBothPrincipalsAndTheFault(t *testing.T) {
	run := func(t *testing.T, slug string, front func(http.Handler) http.Handler) Result {
		t.Helper()
		l := newLab(t)
		l.front = front
		report, err := Run(t.Context(), l.start().target(), Only(slug))
		require.NoError(t, err)
		res, _ := report.Result(slug)
		require.Equal(t, Fail, res.Verdict, "%s", res)
		require.NotContains(t, res.Curl, "secret")
		return res
	}
	t.Run("principals", func(t *testing.T) {
		line := run(t, "scope-principal", keyed(func(_ http.ResponseWriter, r *http.Request, _ string, _ []byte) bool {
			r.Header.Set("Authorization", "Bearer everybody")
			return false
		})).Curl
		require.Regexp(t, `^K1=\S+ [^;]*; curl [^;]*\$ALICE_AUTHORIZATION[^;]*; curl [^;]*\$BOB_AUTHORIZATION[^;]*$`,
			line)
	})
	t.Run("fault", func(t *testing.T) {
		line := run(t, "fault-5xx", keyed(func(_ http.ResponseWriter, r *http.Request, _ string, _ []byte) bool {
			r.Header.Set("Idempotency-Key", freshKey())
			return false
		})).Curl
		require.Equal(t, 1, strings.Count(line, "X-Fault: 500"))
		// On a busy machine the response is late, and the line then has the pause.
		require.Regexp(t, `^K1=\S+ [^;]*; curl [^;]*'X-Fault: 500'[^;]*; (sleep [^;]*; )?for i in 1 2; do curl [^;]*; done$`,
			line)
	})
}
