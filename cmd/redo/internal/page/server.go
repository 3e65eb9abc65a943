package page

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redo-go/redo/conformance"
)

// server is one report, as the page shows it.
type server struct {
	ID       string
	Name     string
	Short    string // the name, for the head of a column
	Report   conformance.Report
	Exit     int
	Strict   string // the results that strictness would change; empty: none
	Outcome  outcome
	Counts   []mark  // of the verdicts that occur
	Shares   []share // of the bar
	Started  string
	StartISO string
	Took     string
	Findings []*result // the results that need attention, the heaviest first
	Sections []*section
}

// A share is a verdict's part of the bar, in hundredths of a percent as text.
type share struct {
	Verdict  conformance.Verdict
	X, Width string
}

// A section is a group of cases.
type section struct {
	Title   string
	Results []*result
}

func newServer(number int, anchors string, r conformance.Report) server {
	s := server{
		ID: fmt.Sprintf("server-%d", number), Name: r.Target, Report: r,
		Exit: r.ExitCode(false), Outcome: outcomeOf(r),
		Took: duration(r.Micros),
	}
	if s.Name == "" {
		s.Name = r.BaseURL
	}
	if s.Name == "" {
		s.Name = fmt.Sprintf("target %d", number) // a run that was refused for its configuration
	}
	s.Short = excerpt(s.Name, 48)
	if strict := r.ExitCode(true); strict != s.Exit {
		s.Strict = fmt.Sprintf("With strictness the exit code would be %d: rules of all levels count then.", strict)
	}
	if !r.Started.IsZero() {
		s.Started = r.Started.UTC().Format("2 January 2006, 15:04:05 UTC")
		s.StartISO = r.Started.UTC().Format(time.RFC3339)
	}
	counts, before := r.Count(), 0
	for _, m := range marks() {
		if m.Count = counts[m.Verdict]; m.Count == 0 {
			continue
		}
		s.Counts = append(s.Counts, m)
		s.Shares = append(s.Shares, share{m.Verdict, percent(before, len(r.Results)), percent(m.Count, len(r.Results))})
		before += m.Count
	}
	for _, res := range r.Results {
		view := newResult(anchors, res)
		title := sectionTitle(res.Slug)
		i := slices.IndexFunc(s.Sections, func(x *section) bool { return x.Title == title })
		if i < 0 {
			i = len(s.Sections)
			s.Sections = append(s.Sections, &section{Title: title})
		}
		s.Sections[i].Results = append(s.Sections[i].Results, view)
		if view.rank() < unremarkable {
			view.Finding = true
			s.Findings = append(s.Findings, view)
		}
	}
	slices.SortStableFunc(s.Findings, func(a, b *result) int { return a.rank() - b.rank() })
	return s
}

func percent(n, of int) string { return fmt.Sprintf("%.2f%%", 100*float64(n)/float64(of)) }

// outcome is the result of a run. It has the mark of its verdict.
type outcome struct {
	Verdict conformance.Verdict
	Title   string
	Meaning string
}

var outcomes = map[conformance.Outcome]outcome{
	conformance.Conforms: {
		conformance.Pass, "Conforms", "No MUST was broken, and each that was tried could be shown.",
	},
	conformance.LittleTried: {
		conformance.Info, "Little was tried", "No MUST was broken, but rules that matter most were not tried.",
	},
	conformance.Deviates: {
		conformance.Fail, "Does not conform", "A MUST was broken, or an expected failure now passes.",
	},
	conformance.Unproven: {
		conformance.Inconclusive, "Not shown to conform",
		"No MUST was seen to be broken, but a MUST could not be shown.",
	},
	conformance.NotTried: {
		conformance.Harness, "Not tried", "The options or the target's description are wrong, or no case was selected.",
	},
	conformance.Unfinished: {
		conformance.Harness, "Not finished", "The run was ended, or failed. The missing cases were not tried.",
	},
}

// notReached is the outcome of a run without a target.
var notReached = outcome{
	conformance.Blocked, "Not reached", "The target could not be reached, or did not serve one plain request.",
}

func outcomeOf(r conformance.Report) outcome {
	if r.ExitCode(false) == conformance.ExitUnreachable {
		return notReached
	}
	return outcomes[r.Outcome(false)]
}

// titles are the sections' names by the slugs' first parts.
var titles = map[string]string{
	"ctl": "Controls", "key": "The key", "replay": "Replays", "mismatch": "Mismatches", "conc": "Concurrency",
	"independent": "Concurrency", "fault": "Faults", "restart": "Faults", "scope": "Scope", "expiry": "Lifetime",
	"lifetime": "Lifetime", "method": "Methods", "cors": "Browsers", "late": "The end of the run",
}

func sectionTitle(slug string) string {
	group := conformance.Case{Slug: slug}.Group()
	if title, ok := titles[group]; ok {
		return title
	}
	return strings.ToUpper(group[:1]) + group[1:]
}

// duration writes microseconds in the unit that fits.
func duration(micros int64) string {
	switch {
	case micros < 1000:
		return fmt.Sprintf("%d µs", micros)
	case micros < 100_000:
		return fmt.Sprintf("%.1f ms", float64(micros)/1e3)
	case micros < 1_000_000:
		return fmt.Sprintf("%d ms", micros/1000)
	case micros < 60_000_000:
		return fmt.Sprintf("%.2f s", float64(micros)/1e6)
	}
	return (time.Duration(micros) * time.Microsecond).Round(time.Second).String()
}
