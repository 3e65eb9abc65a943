package conformance

import (
	"fmt"
	"slices"
	"strings"
)

// Outcome is a run's overall result, in a few words. Its text is stable.
type Outcome string

// These are the outcomes.
const (
	// Conforms means that the run tried the core and showed every rule that counts, and no such rule was broken.
	Conforms Outcome = "conforms"
	// Deviates means that a rule that counts was broken, or that an expected failure passed.
	Deviates Outcome = "does not conform"
	// Unproven means that no rule was seen broken, and a MUST is inconclusive or blocked.
	Unproven Outcome = "not shown to conform"
	// LittleTried means that no rule was seen broken, and a part of the core was not tried.
	LittleTried Outcome = "little was tried"
	// NotTried means that the target was unreachable, did not serve one plain request, or is configured wrongly.
	NotTried Outcome = "not tried"
	// Unfinished means that the run was stopped, or is itself at fault.
	Unfinished Outcome = "not finished"
)

// core lists the cases that test the purpose of the key. A run without them has tried little.
var core = []string{slugEffect, slugBody, slugMismatch, "conc-one-effect"}

// Outcome returns the run's overall result. ExitCode returns it as a number: 0 for Conforms and LittleTried, 1 for
// Deviates and Unproven.
func (r Report) Outcome(strict bool) Outcome {
	switch r.ExitCode(strict) {
	case ExitConforms:
		if len(r.untried()) > 0 {
			return LittleTried
		}
		return Conforms
	case ExitFailed:
		if len(r.deviations(strict)) > 0 {
			return Deviates
		}
		return Unproven
	case ExitFault:
		return Unfinished
	}
	if r.died() != "" {
		return Unfinished
	}
	return NotTried
}

// Headline returns the outcome in one line, with the cases that cause it.
func (r Report) Headline(strict bool) string {
	outcome := r.Outcome(strict)
	switch outcome {
	case Conforms, LittleTried:
		passed, all := r.musts()
		text := fmt.Sprintf("%s: %d of %d MUSTs passed", outcome, passed, all)
		if outcome == Conforms {
			text = fmt.Sprintf("%s, as far as it was tried: %d of %d MUSTs passed", outcome, passed, all)
		}
		if known := r.known(); len(known) > 0 {
			text += ", except the expected failures: " + strings.Join(known, ", ")
		}
		if missing := r.untried(); len(missing) > 0 {
			text += "; not tried: " + strings.Join(missing, ", ")
		}
		return text
	case Deviates, Unproven:
		parts := []string{strings.Join(r.deviations(strict), ", ")}
		parts = append(parts, r.unproven(strict)...)
		if r.died() != "" {
			parts = append(parts, r.died())
		}
		parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
		return string(outcome) + ": " + strings.Join(parts, "; ")
	case NotTried:
		return string(outcome) + ": " + r.obstacle()
	}
	if r.died() != "" {
		return string(outcome) + ": " + r.died()
	}
	return string(outcome) + ": the rest is unknown"
}

// died names the cases that were running when the target died. It is empty unless the target died after the run had
// tried a case.
func (r Report) died() string {
	if r.Stopped == nil || r.Stopped.Reason != StopUnreachable ||
		!slices.ContainsFunc(r.Results, func(res Result) bool { return res.Verdict == Pass || res.Verdict.broken() }) {
		return ""
	}
	var slugs []string
	for _, res := range r.Results {
		if res.Verdict == Harness && res.Reason == died {
			slugs = append(slugs, res.Slug)
		}
	}
	return strings.TrimSuffix(died+", in "+strings.Join(slugs, ", "), ", in ")
}

// deviations returns the slugs of the broken rules that count, and of the expected failures that pass.
func (r Report) deviations(strict bool) []string {
	var slugs []string
	for _, res := range r.Results {
		switch {
		case !res.Failed(strict):
		case res.Verdict == Pass:
			slugs = append(slugs, res.Slug+" (passes, and is expected to fail)")
		case res.Verdict.broken():
			slugs = append(slugs, res.Slug)
		}
	}
	return slugs
}

// unproven returns the rules that count and could not be shown, by verdict.
func (r Report) unproven(strict bool) []string {
	var texts []string
	for _, v := range []Verdict{Inconclusive, Blocked} {
		var slugs []string
		for _, res := range r.Results {
			if res.Verdict == v && res.Failed(strict) {
				slugs = append(slugs, res.Slug)
			}
		}
		if len(slugs) > 0 {
			texts = append(texts, fmt.Sprintf("%s: %s", v, strings.Join(slugs, ", ")))
		}
	}
	return texts
}

// ClientProfile is the profile of a report about a client, as redo client-check writes it.
const ClientProfile = "client"

// untried returns the slugs of the core cases that neither passed nor failed as expected. A report about a client has
// other cases, and no core.
func (r Report) untried() []string {
	if r.Profile == ClientProfile {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(core), func(slug string) bool {
		res, ok := r.Result(slug)
		return ok && (res.Verdict == Pass || res.Verdict.broken())
	})
}

// known returns the slugs of the cases that failed as expected.
func (r Report) known() []string {
	var slugs []string
	for _, res := range r.Results {
		if res.Expected != "" && res.Verdict == Fail {
			slugs = append(slugs, res.Slug)
		}
	}
	return slugs
}

// musts counts the rules of level MUST.
func (r Report) musts() (passed, all int) {
	for _, res := range r.Results {
		if res.Level == Must {
			all++
			if res.Verdict == Pass {
				passed++
			}
		}
	}
	return passed, all
}

// obstacle returns the reason why the run tried no case.
func (r Report) obstacle() string {
	if r.Stopped != nil && r.Stopped.Reason == StopConfig {
		return "the description or an option is wrong"
	}
	if res, ok := r.Result(slugBaseline); ok && res.Verdict.broken() {
		return slugBaseline + " did not pass, and all other cases depend on it"
	}
	return "the target can't be reached"
}
