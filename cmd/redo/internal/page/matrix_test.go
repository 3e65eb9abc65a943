package page

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redo-go/redo/conformance"
)

func TestMatrixHasEachCaseOfAnyServerInTheOrderOfCases(t *testing.T) {
	of := func(verdicts ...string) conformance.Report {
		r := clean()
		r.Results = nil
		for _, v := range verdicts {
			slug, verdict, _ := strings.Cut(v, " ")
			r.Results = append(r.Results, judged(slug, conformance.Must, conformance.Verdict(verdict),
				found(conformance.Info, "", "why")))
		}
		return r
	}
	d := newDocument([]conformance.Report{
		of("zeta-new pass", "replay-effect fail", "ctl-baseline pass"),
		of("ctl-baseline pass", "alpha-new skip", "replay-body warn", "replay-effect pass"),
	})
	var got []string
	for _, s := range d.Matrix.Sections {
		got = append(got, s.Title)
		for _, r := range s.Rows {
			got = append(got, fmt.Sprintf("%s %q %v", r.Slug, r.Summary, r.Differ))
		}
	}
	want := []string{
		"Controls", `ctl-baseline "pass pass" false`,
		"Replays", `replay-effect "fail pass" true`, `replay-body " warn" true`,
		"Zeta", `zeta-new "pass " true`, "Alpha", `alpha-new " skip" true`,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	if d.Matrix.Cases != 5 {
		t.Errorf("%d cases, want 5", d.Matrix.Cases)
	}
}

func TestCellSaysWhatTheBaselineExpects(t *testing.T) {
	d := newDocument([]conformance.Report{only(sample(), "mismatch-known", "mismatch-better", "replay-twice"), clean()})
	notes := map[string]string{}
	for _, s := range d.Matrix.Sections {
		for _, r := range s.Rows {
			notes[r.Slug] = r.Cells[0].Note
		}
	}
	for slug, want := range map[string]string{"mismatch-known": "expected", "mismatch-better": "expected to fail",
		"replay-twice": ""} {
		if notes[slug] != want {
			t.Errorf("%s: %q, want %q", slug, notes[slug], want)
		}
	}
}
