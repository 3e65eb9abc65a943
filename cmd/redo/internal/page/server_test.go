package page

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redo-go/redo/conformance"
)

func TestFindingsThatCountComeFirst(t *testing.T) {
	var got []string
	for _, r := range newServer(1, "case-", sample()).Findings {
		got = append(got, r.Slug)
	}
	want := "[replay-twice replay-huge conc-race fault-lost mismatch-better conc-many method-get key-bytes " +
		"mismatch-known]"
	if fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

func TestHeadSaysWhatTheExitCodeMeans(t *testing.T) {
	stopped := func(reason string) conformance.Report {
		r := unreachable()
		r.Stopped.Reason = reason
		return r
	}
	whole := clean()
	for _, slug := range []string{"replay-effect", "replay-body", "mismatch-body", "conc-one-effect"} {
		if _, ok := whole.Result(slug); !ok {
			whole.Results = append(whole.Results, judged(slug, conformance.Must, conformance.Pass))
		}
	}
	blocked := whole
	blocked.Results = append(slices.Clone(whole.Results), judged("replay-status", conformance.Must, conformance.Blocked,
		conformance.Finding{Verdict: conformance.Blocked, Actual: "no success"}))
	warned := whole
	warned.Results = append(slices.Clone(whole.Results), judged("replay-marker", conformance.Should, conformance.Warn))
	for name, c := range map[string]struct {
		report conformance.Report
		title  string
		strict bool
	}{
		"all passed":              {whole, "Conforms", false},
		"a part was not tried":    {clean(), "Little was tried", false},
		"a MUST was blocked":      {blocked, "Not shown to conform", false},
		"a SHOULD was broken":     {warned, "Conforms", true},
		"a MUST was broken":       {sample(), "Does not conform", false},
		"the description is bad":  {stopped("config"), "Not tried", false},
		"nobody was there":        {stopped("unreachable"), "Not reached", false},
		"the run was interrupted": {stopped("canceled"), "Not finished", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(1, "case-", c.report)
			if s.Outcome.Title != c.title || (s.Strict != "") != c.strict {
				t.Errorf("%q, with strictness %q; want %q, %v", s.Outcome.Title, s.Strict, c.title, c.strict)
			}
		})
	}
}

func TestEachCaseOfThisVersionHasASectionWithAName(t *testing.T) {
	for _, c := range conformance.Cases() {
		if _, ok := titles[c.Group()]; !ok {
			t.Errorf("%s has no section's title", c.Slug)
		}
	}
}

func TestEachVerdictHasAColourAShapeAndAMeaning(t *testing.T) {
	for _, m := range marks() {
		for what, ok := range map[string]bool{
			"meaning": m.Meaning != "",
			"colour":  strings.Contains(pageStyle, ".v-"+string(m.Verdict)+" { --v: var(--"+string(m.Verdict)+")"),
			"shape":   strings.Contains(pageTemplate, `<symbol id="m-`+string(m.Verdict)+`"`),
		} {
			if !ok {
				t.Errorf("%s has no %s", m.Verdict, what)
			}
		}
	}
}

func TestDurationsAreReadable(t *testing.T) {
	for micros, want := range map[int64]string{0: "0 µs", 999: "999 µs", 1000: "1.0 ms", 99_940: "99.9 ms",
		820_000: "820 ms", 31_415_926: "31.42 s", 125_000_000: "2m5s"} {
		if got := duration(micros); got != want {
			t.Errorf("%d µs is %q, want %q", micros, got, want)
		}
	}
}
