package conformance

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The headline claims no more than was tried, and nothing worse than was seen.
func TestHeadlines(t *testing.T) {
	must := func(slug string, v Verdict) Result { return Result{Slug: slug, Level: Must, Verdict: v} }
	all := []Result{must("ctl-baseline", Pass), must("replay-effect", Pass), must("replay-body", Pass),
		must("mismatch-body", Pass), must("conc-one-effect", Pass)}
	with := func(more ...Result) Report { return Report{Results: append(all[:len(all):len(all)], more...)} }
	known := must("replay-status", Fail)
	known.Expected = "ticket 12"
	gone := must("replay-status", Pass)
	gone.Expected = "ticket 12"
	hidden := must("replay-status", Blocked)
	hidden.Expected = "ticket 12"
	for _, c := range []struct {
		rule    string
		report  Report
		strict  bool
		outcome Outcome
		want    string
	}{
		{"the core was tried", with(), false, Conforms, "conforms, as far as it was tried: 5 of 5 MUSTs passed"},
		{"a failure is expected", with(known), false, Conforms,
			"conforms, as far as it was tried: 5 of 6 MUSTs passed, except the expected failures: replay-status"},
		{"a part of the core was not tried", Report{Results: all[:3]}, false, LittleTried,
			"little was tried: 3 of 3 MUSTs passed; not tried: mismatch-body, conc-one-effect"},
		{"a MUST is broken", with(must("key-case", Fail)), false, Deviates, "does not conform: key-case"},
		{"a MUST is broken, and others could not be shown", with(must("key-case", Fail), must("replay-204", Blocked)),
			false, Deviates,
			"does not conform: key-case; blocked: replay-204"},
		{"nothing is broken, and a MUST could not be shown", with(must("replay-204", Inconclusive), must("x", Blocked)),
			false, Unproven,
			"not shown to conform: inconclusive: replay-204; blocked: x"},
		{"a MUST is blocked behind the baseline", with(hidden), false, Unproven,
			"not shown to conform: blocked: replay-status"},
		{"an expected failure passes", with(gone), false, Deviates,
			"does not conform: replay-status (passes, and is expected to fail)"},
		{"a SHOULD is broken", with(Result{Slug: "key-empty", Level: Should, Verdict: Warn}), false, Conforms,
			"conforms, as far as it was tried: 5 of 5 MUSTs passed"},
		{"a SHOULD is broken, strictly", with(Result{Slug: "key-empty", Level: Should, Verdict: Warn}), true, Deviates,
			"does not conform: key-empty"},
		{"the baseline fails", Report{Results: []Result{must("ctl-baseline", Fail), must("x", Blocked)}}, false,
			NotTried,
			"not tried: ctl-baseline did not pass, and all other cases depend on it"},
		{"the configuration is wrong", Report{Stopped: &Stopped{Reason: StopConfig}}, false, NotTried,
			"not tried: the description or an option is wrong"},
		{"the run was ended", Report{Results: all, Stopped: &Stopped{Reason: StopCanceled}}, false, Unfinished,
			"not finished: the rest is unknown"},
	} {
		require.Equal(t, c.outcome, c.report.Outcome(c.strict), c.rule)
		require.Equal(t, c.want, c.report.Headline(c.strict), c.rule)
	}
}
