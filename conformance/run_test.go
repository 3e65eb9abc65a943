package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// counting is a target without deduplication, with a counter that returns the given text.
func counting(t *testing.T, count func(n int64) string) Target {
	target, n := forgetful(t, func(n int64) string { return strconv.FormatInt(n, 10) })
	counter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, count(n.Load()))
	}))
	t.Cleanup(counter.Close)
	target.Effects = &Effects{URL: counter.URL}
	return target
}

func TestWrongInputIsRefusedBeforeAnythingIsSent(t *testing.T) {
	good, n := forgetful(t, constant)
	for name, c := range map[string]struct {
		change func(*Target)
		opts   []Option
		want   string
	}{
		"a slug that is unknown": {opts: []Option{Only("replay-nothing")},
			want: "there is no case replay-nothing"},
		"a slug to leave out": {opts: []Option{Except("x", "y")}, want: "there is no case x, y"},
		"a failure that can't happen": {opts: []Option{ExpectFailure("nope", "why")},
			want: "there is no case nope"},
		"a group that is to fail": {opts: []Option{ExpectFailure("replay", "why")},
			want: "replay (a group: list each expected failure)"},
		"no case": {opts: []Option{Only("ctl-baseline"), Except("ctl")},
			want: "no case is selected"},
		"no worker": {opts: []Option{Concurrency(0)}, want: "Concurrency: 0 is not positive"},
		"a template with a typing error": {change: func(t *Target) { t.Operation.Body = "{{paylaod}}" },
			want: "operation.body: there is no variable {{paylaod}}"},
		"a template that does not end": {change: func(t *Target) { t.Operation.Path = "/{{case" },
			want: "{{case is no variable"},
		"a profile that is none": {change: func(t *Target) { t.Profile = "acme" },
			want: `there is no profile "acme"`},
		"a URL with a password": {change: func(t *Target) { t.BaseURL = "http://u:hunter2@h/" },
			want: "must not hold credentials"},
		"a URL that is none": {change: func(t *Target) { t.BaseURL = "ht!tp:hunter2" },
			want: "must be an http or https URL"},
		"an operation without an effect": {change: func(t *Target) { t.Operation.Method = "GET" },
			want: "GET makes no effect"},
		"a counter that shares": {change: func(t *Target) {
			t.Effects = &Effects{URL: "/{{case}}"}
			t.Operation.Body = "{{payload}}"
		}, want: "does not have {{case}}"},
		"two ways to count": {change: func(t *Target) { t.Effects = &Effects{URL: "/x", ResponseID: "id"} },
			want: "one of url, command and response_id"},
		"a header that breaks the frame": {change: func(t *Target) {
			t.Operation.Headers = map[string]string{"content-length": "3"}
		}, want: "content-length is the harness's own"},
		"a header with a line break": {change: func(t *Target) {
			t.Operation.Headers = map[string]string{"X-Secret": "hunter2\r\nX: y"}
		}, want: "the header X-Secret has a line break"},
		"a file of certificates that is not there": {change: func(t *Target) { t.CAFile = "nowhere.pem" },
			want: "ca_file: open nowhere.pem"},
	} {
		t.Run(name, func(t *testing.T) {
			target := good
			if c.change != nil {
				c.change(&target)
			}
			before := n.Load()
			report, err := Run(t.Context(), target, c.opts...)
			require.ErrorIs(t, err, ErrConfig)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "hunter2")
			require.Equal(t, ExitConfig, report.ExitCode(false))
			require.Equal(t, "config", report.Stopped.Reason)
			require.Equal(t, before, n.Load())
		})
	}
}

func TestTargetThatIsNotThereIsUnreachable(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	target, _ := forgetful(t, constant)
	target.BaseURL = "http://" + ln.Addr().String()
	report, err := Run(t.Context(), target)
	require.ErrorIs(t, err, ErrUnreachable)
	require.Equal(t, ExitUnreachable, report.ExitCode(false))
	require.Len(t, report.Results, len(Cases()))
	require.Equal(t, map[Verdict]int{Harness: len(Cases())}, report.Count())
}

func TestBaselineThatFailsBlocksAllAndHasItsOwnExitCode(t *testing.T) {
	t.Parallel() // runs spend their time waiting
	l := newLab(t)
	l.app = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "wrong payload", http.StatusUnprocessableEntity)
	})
	report, err := Run(t.Context(), l.start().target())
	require.NoError(t, err)
	require.Equal(t, ExitUnreachable, report.ExitCode(false))
	require.Equal(t, []string{slugBaseline}, broken(report))
	require.Zero(t, report.Count()[Pass])
	require.Contains(t, texts(report), "422 wrong payload")
}

func TestCounterThatCannotBeReadIsAWrongConfiguration(t *testing.T) {
	for name, c := range map[string]struct {
		count func(int64) string
		want  string
	}{
		"words":              {func(int64) string { return "many" }, `"many": it is no JSON`},
		"a text":             {func(int64) string { return `"7"` }, "neither a whole number nor a list"},
		"a fraction":         {func(int64) string { return "1.5" }, "1.5 is no whole number"},
		"an object":          {func(int64) string { return `{"n":1}` }, "neither a whole number nor a list"},
		"beyond all numbers": {func(int64) string { return "99999999999999999999" }, "is no whole number"},
	} {
		t.Run(name, func(t *testing.T) {
			report, err := Run(t.Context(), counting(t, c.count))
			require.ErrorIs(t, err, ErrConfig)
			require.ErrorContains(t, err, c.want)
			require.Equal(t, ExitConfig, report.ExitCode(false))
			require.Equal(t, map[Verdict]int{Harness: len(Cases())}, report.Count())
		})
	}
}

func TestCountThatMovesByItselfIsFoundBeforeTheFirstCase(t *testing.T) {
	var moved atomic.Int64
	target := counting(t, func(int64) string { return strconv.FormatInt(moved.Add(2), 10) })
	report, err := Run(t.Context(), target)
	require.ErrorIs(t, err, ErrConfig)
	require.ErrorContains(t, err, "the count moves without a request: it was 2 and then 4")
	require.Equal(t, ExitConfig, report.ExitCode(false))
}

// A counter that breaks in the middle ends the run, and the earlier results are kept.
func TestCounterThatBreaksLaterLeavesAReport(t *testing.T) {
	var reads atomic.Int64
	l := newLab(t)
	target := l.start().target()
	target.Effects = &Effects{Func: func(_ context.Context, word string) (int, error) {
		if reads.Add(1) > 20 {
			return 0, errors.New("the database is gone")
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.effects[word], nil
	}}
	report, err := Run(t.Context(), target)
	require.ErrorIs(t, err, ErrConfig)
	require.ErrorContains(t, err, "the database is gone")
	require.Equal(t, ExitConfig, report.ExitCode(false))
	require.Len(t, report.Results, len(Cases()))
	res, _ := report.Result(slugBaseline)
	require.Equal(t, Pass, res.Verdict)
	require.NotZero(t, report.Count()[Harness])
}

func TestCanceledRunStopsCleanlyAndKeepsWhatItHas(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("run", func(t *testing.T) {
		l := newLab(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("the user has seen enough")
		report, err := Run(ctx, l.start().target(), Progress(func(res Result) {
			if res.Slug == slugBody {
				cancel(why)
			}
		}))
		require.ErrorIs(t, err, why)
		require.Equal(t, "canceled", report.Stopped.Reason)
		require.Equal(t, ExitFault, report.ExitCode(false))
		require.Len(t, report.Results, len(Cases()))
		for _, slug := range []string{slugBaseline, slugDistinct, slugBody} {
			res, _ := report.Result(slug)
			require.Equal(t, Pass, res.Verdict)
		}
		res, _ := report.Result("expiry")
		require.Equal(t, Harness, res.Verdict)
		require.NotEmpty(t, res.Reason)
	})
	for end := time.Now().Add(30 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		require.True(t, time.Now().Before(end), "%d goroutines, %d before", runtime.NumGoroutine(), before)
	}
}

func TestContextThatIsOverRunsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	target, n := forgetful(t, constant)
	report, err := Run(ctx, target)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, ExitFault, report.ExitCode(false))
	require.Zero(t, n.Load())
}

// A target that a request kills is not there for the next one.
func TestTargetThatDiesEndsTheRunAsUnreachable(t *testing.T) {
	t.Parallel() // runs spend their time waiting
	l := newLab(t)
	var alive atomic.Pointer[http.Server]
	l.front = keyed(func(_ http.ResponseWriter, _ *http.Request, key string, _ []byte) bool {
		if len(key) > 255 {
			_ = alive.Load().Close()
		}
		return false
	})
	l.start()
	alive.Store(l.server)
	for _, only := range []string{"key-too-long", "key"} { // the death ends the last case, or one in the middle
		report, err := Run(t.Context(), l.target(), Only(only), Concurrency(1))
		require.ErrorIs(t, err, ErrUnreachable)
		require.ErrorContains(t, err, "conformance: the target died during the run: dial tcp")
		require.Equal(t, "unreachable", report.Stopped.Reason)
		// The request may not be the cause, and the case could not run again.
		require.Empty(t, broken(report))
		require.Equal(t, ExitUnreachable, report.ExitCode(false))
		require.Contains(t, report.Headline(false), "not finished: the target died during the run, in key-too-long")
		l.listen("")
		alive.Store(l.server)
	}
}

// The death of a target excuses no failure that a count of effects proves, or that a second run saw.
func TestTargetThatDiesIsStillBlamedForItsEffects(t *testing.T) {
	t.Parallel() // runs spend their time waiting
	l := newLab(t)
	var alive atomic.Pointer[http.Server]
	l.front = keyed(func(_ http.ResponseWriter, r *http.Request, key string, _ []byte) bool {
		if len(key) > 255 {
			_ = alive.Load().Close()
		}
		r.Header.Set("Idempotency-Key", freshKey())
		return false
	})
	l.start()
	alive.Store(l.server)
	report, err := Run(t.Context(), l.target(), Only("key-max-len", "key-too-long"), Concurrency(1))
	require.ErrorIs(t, err, ErrUnreachable)
	require.Equal(t, []string{"key-max-len"}, broken(report))
	require.Equal(t, ExitFailed, report.ExitCode(false))
	require.Contains(t, report.Headline(false),
		"does not conform: key-max-len; the target died during the run, in key-too-long")
}

func TestPanicOfACaseIsTheHarnessesFault(t *testing.T) {
	target, _ := forgetful(t, constant)
	r := &runner{target: target, results: map[string]Result{}}
	require.NoError(t, r.prepare(nil))
	res := r.result(Case{Slug: "x"})
	r.try(t.Context(), Case{Slug: "x", Level: Must, run: func(*trial) { panic("a slip") }}, &res, "")
	require.Equal(t, Harness, res.Verdict)
	require.Equal(t, "the case panicked: a slip", res.Reason)
	require.Equal(t, ExitFault, Report{Results: []Result{res}}.ExitCode(false))
}

func TestOrderOfResultsIsThatOfCases(t *testing.T) {
	l := newLab(t)
	report, err := Run(t.Context(), l.start().target(), Only("mismatch", "key"))
	require.NoError(t, err)
	var want, got []string
	for _, c := range Cases() {
		if c.Group() == "key" || c.Group() == "mismatch" || c.Group() == "ctl" {
			want = append(want, c.Slug)
		}
	}
	for _, res := range report.Results {
		got = append(got, res.Slug)
	}
	require.Equal(t, want, got)
}

func TestSeedMakesThePlanAndNotTheKeys(t *testing.T) {
	plan := func(seed uint64) []string {
		l := newLab(t)
		l.front = rewriting(func(r *http.Request, a *httptest.ResponseRecorder) {
			if isMismatch(a) {
				a.Code = http.StatusNotImplemented
			}
		})
		report, err := Run(t.Context(), l.start().target(), Only("conc-history"), Seed(seed))
		require.NoError(t, err)
		require.Equal(t, seed, report.Seed)
		res, _ := report.Result("conc-history")
		var labels []string
		for _, x := range res.Exchanges {
			labels = append(labels, x.Label)
		}
		require.Len(t, labels, historyWorkers*historyEach+2*historyKeys)
		require.Equal(t, fmt.Sprintf("--run conc-history --seed %d", seed), res.Rerun)
		return labels
	}
	require.Equal(t, plan(7), plan(7))
	require.NotEqual(t, plan(7), plan(8))
}

func TestTwoRunsShareNoKey(t *testing.T) {
	keys := make(chan string, 1000)
	l := newLab(t)
	l.front = keyed(func(_ http.ResponseWriter, _ *http.Request, key string, _ []byte) bool {
		keys <- key
		return false
	})
	target := l.start().target()
	seen := map[string]int{}
	for run := range 2 {
		_, err := Run(t.Context(), target, Only("ctl"), Seed(1))
		require.NoError(t, err)
		for len(keys) > 0 {
			key := <-keys
			if first, ok := seen[key]; ok {
				require.Equal(t, first, run, key)
			}
			seen[key] = run
		}
	}
	require.Len(t, seen, 2*5)
}

func TestExpectedFailureCountsOnlyWhenItPasses(t *testing.T) {
	l := newLab(t)
	l.front = rewriting(func(_ *http.Request, a *httptest.ResponseRecorder) {
		if isReplay(a) {
			a.Code = http.StatusOK
		}
	})
	target := l.start().target()
	report, err := Run(t.Context(), target, Only(slugStatus), ExpectFailure(slugStatus, "issue 12"))
	require.NoError(t, err)
	require.Equal(t, []string{slugStatus}, broken(report))
	require.Equal(t, ExitConforms, report.ExitCode(true))
	require.Contains(t, texts(report), "expected (issue 12)")

	report, err = Run(t.Context(), target, Only(slugEffect), ExpectFailure(slugEffect, "issue 13"))
	require.NoError(t, err)
	require.Empty(t, broken(report))
	require.Equal(t, ExitFailed, report.ExitCode(false))
	require.Contains(t, texts(report), "passes, but is expected to fail: issue 13")
}

func TestExitCodes(t *testing.T) {
	stop := func(reason string) *Stopped { return &Stopped{Reason: reason} }
	one := func(slug string, l Level, v Verdict) []Result { return []Result{{Slug: slug, Level: l, Verdict: v}} }
	for _, c := range []struct {
		rule            string
		report          Report
		lenient, strict int
	}{
		{"a pass conforms", Report{Results: one("a", Must, Pass)}, 0, 0},
		{"a skip conforms", Report{Results: one("a", Must, Skip)}, 0, 0},
		{"an info conforms", Report{Results: one("a", Inform, Info)}, 0, 0},
		{"a MUST that fails", Report{Results: one("a", Must, Fail)}, 1, 1},
		{"a SHOULD that fails in a way no level excuses", Report{Results: one("a", Should, Fail)}, 1, 1},
		{"a warning counts when strict", Report{Results: one("a", Should, Warn)}, 0, 1},
		{"a MUST that can't be shown", Report{Results: one("a", Must, Inconclusive)}, 1, 1},
		{"a SHOULD that can't be shown", Report{Results: one("a", Should, Inconclusive)}, 0, 1},
		{"a MUST that is blocked", Report{Results: one("a", Must, Blocked)}, 1, 1},
		{"a MUST that is blocked and expected to fail", Report{Results: []Result{{Slug: "a", Level: Must,
			Verdict:  Blocked,
			Expected: "x"}}}, 1, 1},
		{"a MUST that fails as expected", Report{Results: []Result{{Slug: "a", Level: Must, Verdict: Fail,
			Expected: "x"}}},
			0, 0},
		{"a SHOULD that is blocked", Report{Results: one("a", Should, Blocked)}, 0, 1},
		{"a wrong configuration", Report{Stopped: stop(StopConfig)}, 2, 2},
		{"a wrong configuration found late", Report{Stopped: stop(StopConfig), Results: one("a", Must, Fail)}, 2, 2},
		{"a target that is not there", Report{Stopped: stop(StopUnreachable), Results: one("a", Must, Harness)}, 3, 3},
		{"a baseline that fails", Report{Results: one(slugBaseline, Must, Fail)}, 3, 3},
		{"a run that was ended", Report{Stopped: stop(StopCanceled), Results: one("a", Must, Pass)}, 4, 4},
		{"a run that was ended, with a failure", Report{Stopped: stop(StopCanceled), Results: one("a", Must, Fail)}, 1,
			1},
		{"a fault of the harness", Report{Results: one("a", Must, Harness)}, 4, 4},
		{"nothing", Report{}, 4, 4},
	} {
		require.Equal(t, c.lenient, c.report.ExitCode(false), c.rule)
		require.Equal(t, c.strict, c.report.ExitCode(true), c.rule)
	}
}

// The file has every slug that was ever released. A case that is given up keeps its line, with "retired" as its level.
func TestSlugsAreThoseOfTheList(t *testing.T) {
	text, err := os.ReadFile("testdata/slugs.txt")
	require.NoError(t, err)
	var want, got []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "retired") {
			want = append(want, strings.TrimSpace(line))
		}
	}
	for _, c := range Cases() {
		got = append(got, fmt.Sprintf("%-7s %s", c.Level, c.Slug))
	}
	require.Equal(t, want, got, "conformance/testdata/slugs.txt must list the cases, each with its level")
	for _, c := range Cases() {
		require.NotContains(t, string(text), "retired "+c.Slug+"\n")
	}
}

func TestCasesAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Cases() {
		require.Regexp(t, `^[a-z]+-[a-z0-9-]+$|^expiry$`, c.Slug)
		require.False(t, seen[c.Slug], c.Slug)
		for _, below := range c.prerequisites() {
			require.True(t, seen[below] || strings.HasPrefix(c.Slug, "key-"), "%s stands on %s, which is not there",
				c.Slug,
				below)
		}
		seen[c.Slug] = true
		require.NotEmpty(t, c.Sequence, c.Slug)
		require.NotEmpty(t, c.Rule, c.Slug)
		require.NotEmpty(t, c.Why, c.Slug)
		require.NotEmpty(t, c.Sources, c.Slug)
		require.NotRegexp(t, `\b[EKB]\d?\b|\bA\d\b|\b(fx|p2|ttl)\b`, c.Sequence+" "+c.Rule, "%s: words, no signs",
			c.Slug)
		for _, n := range c.Needs {
			require.NotEmpty(t, needTexts[n], n)
		}
	}
}
