package form

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/conformance"
)

// sample is a report with a result of every verdict.
func sample() conformance.Report {
	two := 2
	source := []conformance.Source{{Ref: "RFC 9110 section 9.2.2", Level: conformance.Should}, {Ref: "a blog"}}
	result := func(slug string, level conformance.Level, v conformance.Verdict) conformance.Result {
		return conformance.Result{Slug: slug, Level: level, Verdict: v, Rule: "The rule.", Why: "The reason.",
			Sources: source, Micros: 1500}
	}
	failed := result("replay-effect", conformance.Must, conformance.Fail)
	failed.Findings = []conformance.Finding{{Verdict: conformance.Fail, Expected: "1 effect", Actual: "2 effects"}}
	failed.Effects, failed.Curl = &two, "curl -si http://x"
	failed.Rerun = "--run replay-effect --seed 7"
	failed.Exchanges = []*conformance.Exchange{{
		Label: "first", Delivery: "in two parts", Method: "POST", Path: "/x", SentMicros: 10, FirstMicros: 20,
		DoneMicros: 30, Interim: []int{103},
		Status: 201, RequestHeader: []string{"A: b"}, RequestBody: "{}", ResponseHeader: []string{"C: d"},
		ResponseBody: "bell\a \x1b[2J\u202e",
	}, {Label: "second", Method: "POST", Path: "/x", SentMicros: 40, DoneMicros: 50, Error: "connection reset"}}
	warned := result("key-empty", conformance.Should, conformance.Warn)
	warned.Findings = []conformance.Finding{{Verdict: conformance.Warn, Expected: "status 400", Actual: "500"}}
	skipped := result("scope-principal", conformance.Must, conformance.Skip)
	skipped.Reason = "the target does not declare a second principal"
	blocked := result("replay-204", conformance.Must, conformance.Blocked)
	blocked.Reason = "replay-effect did not pass"
	unsure := result("ctl-oracle", conformance.Must, conformance.Inconclusive)
	unsure.Reason = "there is no oracle"
	info := result("key-sf-quoted", conformance.Inform, conformance.Info)
	ended := result("expiry", conformance.Should, conformance.Harness)
	ended.Reason = "the run ended before this case"
	known := result("mismatch-body", conformance.Must, conformance.Fail)
	known.Expected, known.Findings = "ticket 12", []conformance.Finding{{Verdict: conformance.Fail, Actual: "201"}}
	fixed := result("key-case", conformance.Should, conformance.Pass)
	fixed.Expected = "ticket 13"
	return conformance.Report{
		Schema: conformance.Schema, Target: "shop", BaseURL: "http://shop.test", Profile: "redo", Seed: 7,
		Started: time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC), Micros: 2_500_000,
		Results: []conformance.Result{
			result("ctl-baseline", conformance.Must,
				conformance.Pass), unsure, warned, fixed, info, failed, blocked, known, skipped, ended,
		},
	}
}

func write(t *testing.T, w Writer, o Options, reports ...conformance.Report) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, w(&b, o, reports...))
	return b.String()
}

func TestTextExplainsEachFailure(t *testing.T) {
	require.Equal(t, `WARN key-empty: The rule.
  why       The reason.
  source    RFC 9110 section 9.2.2: SHOULD (here SHOULD)
  source    a blog: describes it (here SHOULD)
  expected  status 400
  actual    500

PASS key-case: The rule.
  why       The reason.
  source    RFC 9110 section 9.2.2: SHOULD (here SHOULD)
  source    a blog: describes it (here SHOULD)
  known     ticket 13
  actual    it passes now: remove it from the baseline

FAIL replay-effect: The rule.
  why       The reason.
  source    RFC 9110 section 9.2.2: SHOULD (here MUST)
  source    a blog: describes it (here MUST)
  effects   2
  expected  1 effect
  actual    2 effects
      0.010 ms  first: POST /x
                (in two parts)
                > A: b
                > {}
                < 103
      0.030 ms  201
                < C: d
                < bell\u0007 \u001b[2J\u202e
      0.040 ms  second: POST /x
      0.050 ms  connection reset
  curl      curl -si http://x
  rerun     redo check shop.yaml --run replay-effect --seed 7

FAIL mismatch-body: The rule.
  why       The reason.
  source    RFC 9110 section 9.2.2: SHOULD (here MUST)
  source    a blog: describes it (here MUST)
  known     ticket 12
  actual    201

inconclusive there is no oracle (ctl-oracle)
info         nothing to report (key-sf-quoted)
blocked      replay-effect did not pass (replay-204)
harness      the run ended before this case (expiry)
skip         1 not declared: a second principal (--verbose lists the cases)

shop at http://shop.test, profile redo, seed 7, 2.5s
2 pass, 2 fail, 1 warn, 1 info, 1 skip, 1 blocked, 1 inconclusive, 1 harness
does not conform: key-case (passes, and is expected to fail), replay-effect; inconclusive: ctl-oracle; blocked: replay-204
`, write(t, Text, Options{Command: "redo check shop.yaml"}, sample()))
}

func TestTextSaysWhatTheExitCodeSays(t *testing.T) {
	base := sample()
	only := func(slugs ...string) conformance.Report {
		r := base
		r.Results = nil
		for _, slug := range slugs {
			res, ok := base.Result(slug)
			require.True(t, ok)
			r.Results = append(r.Results, res)
		}
		return r
	}
	stopped := func(r conformance.Report, reason string) conformance.Report {
		r.Stopped = &conformance.Stopped{Reason: reason, Message: "for this\nreason"}
		return r
	}
	down := only("ctl-baseline")
	down.Results[0].Verdict = conformance.Fail
	for _, c := range []struct {
		report conformance.Report
		strict bool
		code   int
		want   string
	}{
		{only("ctl-baseline", "key-empty", "mismatch-body"), false, 0,
			"\nlittle was tried: 1 of 2 MUSTs passed, except the expected failures: mismatch-body; not tried: " +
				"replay-effect, replay-body, conc-one-effect\n"},
		{only("ctl-baseline", "key-empty"), true, 1, "\ndoes not conform: key-empty\n"},
		{only("ctl-baseline", "expiry"), false, 4, "\nnot finished: the rest is unknown\n"},
		{stopped(only("expiry"), "canceled"), false, 4,
			"\nended early (canceled): for this reason\nnot finished: the rest is unknown\n"},
		{stopped(only(), "config"), false, 2,
			"no case was run\nended early (config): for this reason\nnot tried: the description or an option is " +
				"wrong\n"},
		{stopped(only("expiry"), "unreachable"), false, 3, "\nnot tried: the target can't be reached\n"},
		{down, false, 3, "\nnot tried: ctl-baseline did not pass, and all other cases depend on it\n"},
	} {
		require.Equal(t, c.code, c.report.ExitCode(c.strict))
		require.True(t, strings.HasSuffix(write(t, Text, Options{Strict: c.strict}, c.report), c.want), "%s",
			write(t, Text, Options{Strict: c.strict}, c.report))
	}
}

func TestVerboseTextHasALineForEachCase(t *testing.T) {
	text := write(t, Text, Options{Verbose: true}, sample())
	require.Contains(t, text, "\npass         MUST   ctl-baseline\n")
	require.Contains(t, text, "\nskip         MUST   scope-principal  the target does not declare a second principal\n")
	require.Contains(t, text, "\npass         SHOULD key-case         passes, but is expected to fail: ticket 13\n")
	require.Contains(t, text, "\nfail         MUST   mismatch-body    expected (ticket 12): 201\n")
}

func TestTextEscapesWhatSteersATerminal(t *testing.T) {
	for _, colors := range []bool{false, true} {
		text := write(t, Text, Options{Colors: colors}, sample())
		require.NotContains(t, text, "\a")
		require.NotContains(t, text, "\x1b[2J")
		require.NotContains(t, text, "\u202e")
		require.Equal(t, colors, strings.Contains(text, "\x1b[1;31mFAIL\x1b[0m replay-effect"))
	}
}

func TestSeveralReportsAreAMatrix(t *testing.T) {
	other := sample()
	other.Target, other.BaseURL = "", "http://other.test"
	other.Results = append(other.Results[:1:1], conformance.Result{Slug: "new-case", Verdict: conformance.Pass})
	require.Equal(t, `1  shop at http://shop.test, profile redo, 2025-01-02 03:04:05Z
2  http://other.test, profile redo, 2025-01-02 03:04:05Z

                 1             2
ctl-baseline     pass          pass
ctl-oracle       inconclusive
key-empty        warn
key-case         pass
key-sf-quoted    info
replay-effect    fail
replay-204       blocked
mismatch-body    fail
scope-principal  skip
expiry           harness
new-case                       pass

1  2 pass, 2 fail, 1 warn, 1 info, 1 skip, 1 blocked, 1 inconclusive, 1 harness: does not conform: key-case (passes, and is expected to fail), replay-effect; inconclusive: ctl-oracle; blocked: replay-204
2  2 pass: little was tried: 1 of 1 MUSTs passed; not tried: replay-effect, replay-body, mismatch-body, conc-one-effect
`, write(t, Text, Options{}, sample(), other))
}

func TestJSONIsReadBack(t *testing.T) {
	var one conformance.Report
	require.NoError(t, json.Unmarshal([]byte(write(t, JSON, Options{}, sample())), &one))
	require.Equal(t, sample(), one)
	var many []conformance.Report
	require.NoError(t, json.Unmarshal([]byte(write(t, JSON, Options{}, sample(), sample())), &many))
	require.Equal(t, []conformance.Report{sample(), sample()}, many)
}

func TestJUnitHasAnOutcomeForEachCase(t *testing.T) {
	for _, strict := range []bool{false, true} {
		var doc junitSuites
		require.NoError(t, xml.Unmarshal([]byte(write(t, JUnit, Options{Strict: strict}, sample(), sample())), &doc))
		require.Len(t, doc.Suites, 2)
		s := doc.Suites[0]
		outcomes := map[string]string{}
		for _, c := range s.Cases {
			switch {
			case c.Failure != nil:
				outcomes[c.Name] = "failure"
				require.Contains(t, c.Failure.Text, "  source    RFC 9110")
			case c.Error != nil:
				outcomes[c.Name] = "error"
			case c.Skipped != nil:
				outcomes[c.Name] = "skipped"
			default:
				outcomes[c.Name] = "passed"
			}
		}
		want := map[string]string{
			"ctl-baseline": "passed", "ctl-oracle": "failure", "key-empty": "passed", "key-case": "failure",
			"key-sf-quoted": "passed",
			"replay-effect": "failure", "replay-204": "failure", "mismatch-body": "passed",
			"scope-principal": "skipped",
			"expiry":          "error",
		}
		if strict {
			want["key-empty"] = "failure"
		}
		require.Equal(t, want, outcomes)
		require.Equal(t, []int{10, 4, 1, 1}, []int{s.Tests, map[bool]int{false: s.Failures,
			true: s.Failures - 1}[strict],
			s.Errors, s.Skipped})
		require.Equal(t, "2.500000", s.Time)
	}
}

func TestFormsAreFoundByNameAndExtension(t *testing.T) {
	require.Equal(t, []string{"html", "json", "junit", "text"}, Names())
	for _, name := range []string{"a.html", "a.json", "A.XML", "dir.x/a.txt"} {
		_, err := ForFile(name)
		require.NoError(t, err)
	}
	_, err := ForFile("report.yaml")
	require.EqualError(t, err, `"report.yaml" has the extension of no format, it can be .html, .json, .txt, .xml`)
	_, err = Named("yaml")
	require.EqualError(t, err, `there is no format "yaml", there are html, json, junit, text`)
}

type broken struct{ after int }

var errBroken = errors.New("broken")

func (b *broken) Write(p []byte) (int, error) {
	if b.after -= len(p); b.after < 0 {
		return 0, errBroken
	}
	return len(p), nil
}

func TestErrorsOfTheWriterAreReturned(t *testing.T) {
	for _, name := range Names() {
		w, err := Named(name)
		require.NoError(t, err)
		for _, after := range []int{0, 50} {
			require.ErrorIs(t, w(&broken{after}, Options{}, sample()), errBroken, "%s after %d bytes", name, after)
		}
	}
}
