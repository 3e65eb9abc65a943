package conformance

import (
	"maps"
	"slices"
	"time"
)

// Schema names the form of a report's JSON. Members are only ever added to it; another form has another name.
const Schema = "redo.conformance/1"

// A Report is what a run has found. It marshals to JSON and back without loss, so that reports can be kept and compared.
type Report struct {
	Schema  string `json:"schema"`
	Target  string `json:"target,omitempty"` // the target's name
	BaseURL string `json:"base_url"`
	Profile string `json:"profile"`
	Seed    uint64 `json:"seed"`
	// Started is when the run began, and Micros how long it took, in microseconds.
	Started time.Time `json:"started"`
	Micros  int64     `json:"took_us"`
	// Results are those of all selected cases, in the order of Cases. They are complete also when the run was ended: what was
	// not run is Harness.
	Results []Result `json:"results"`
	// Stopped says why the run ended before its time; nil: it did not.
	Stopped *Stopped `json:"stopped,omitempty"`
}

// Stopped says why a run ended before its time.
type Stopped struct {
	// Reason is "config", "unreachable", "canceled" or "fault".
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Reasons of Stopped.
const (
	stopConfig      = "config"
	stopUnreachable = "unreachable"
	stopCanceled    = "canceled"
	stopFault       = "fault"
)

// A Result is what one case has found.
type Result struct {
	Slug    string   `json:"slug"`
	Level   Level    `json:"level"`
	Verdict Verdict  `json:"verdict"`
	Rule    string   `json:"rule"`
	Why     string   `json:"why"`
	Sources []Source `json:"sources"`
	// Reason is why a case was skipped, blocked or not judged.
	Reason string `json:"reason,omitempty"`
	// Findings are all that was found, the heaviest first.
	Findings []Finding `json:"findings,omitempty"`
	// Expected says that the baseline has this case, for the reason that it gives.
	Expected string `json:"expected_failure,omitempty"`
	// Effects is the change in the number of effects when it was last counted; nil: it was not.
	Effects *int `json:"effects,omitempty"`
	// Exchanges are what was sent and received, for results that are neither a pass nor skipped.
	Exchanges []*Exchange `json:"exchanges,omitempty"`
	// Curl is a shell command that repeats what was sent, up to four requests of it.
	Curl string `json:"curl,omitempty"`
	// Rerun are the flags of redo check that run this case again with its seed: Only and Seed, to a program.
	Rerun string `json:"rerun,omitempty"`
	// Micros is how long the case took, in microseconds.
	Micros int64 `json:"took_us"`
}

// Exit codes.
const (
	ExitConforms    = 0
	ExitFailed      = 1 // a MUST failed or could not be shown, or an expected failure now passes
	ExitConfig      = 2 // wrong options, a wrong description, or no case selected
	ExitUnreachable = 3 // the target can't be reached, or the baseline case failed
	ExitFault       = 4 // the run was ended, or is at fault itself
)

// ExitCode returns the status with which a program that ran the cases should end. A rule that is broken comes before a run
// that is incomplete, since it has its evidence.
//
// A MUST that is inconclusive counts as one that failed: a target of which nothing could be shown does not conform. With
// strict so do rules of all levels that are broken or inconclusive. Expected failures count only when they pass.
func (r Report) ExitCode(strict bool) int {
	stopped := func(reason string) bool { return r.Stopped != nil && r.Stopped.Reason == reason }
	failed, faulty := false, r.Stopped != nil || len(r.Results) == 0
	for _, res := range r.Results {
		if res.Slug == slugBaseline && res.Verdict.broken() && res.Expected == "" {
			return ExitUnreachable
		}
		failed = failed || res.Failed(strict)
		faulty = faulty || res.Verdict == Harness
	}
	switch {
	case stopped(stopConfig):
		return ExitConfig
	case failed:
		return ExitFailed
	case stopped(stopUnreachable):
		return ExitUnreachable
	case faulty:
		return ExitFault
	}
	return ExitConforms
}

// Failed reports whether the result keeps the target from conforming, as ExitCode has it: with strict, rules of all levels
// count.
func (r Result) Failed(strict bool) bool {
	if r.Expected != "" {
		return r.Verdict == Pass
	}
	switch r.Verdict {
	case Fail:
		return true
	case Warn:
		return strict
	case Inconclusive:
		return strict || r.Level == Must
	}
	return false
}

// Count returns how many results have each verdict. Verdicts that no result has are not in it.
func (r Report) Count() map[Verdict]int {
	n := map[Verdict]int{}
	for _, res := range r.Results {
		n[res.Verdict]++
	}
	return n
}

// Result returns a case's result; ok is false when the case was not selected.
func (r Report) Result(slug string) (res Result, ok bool) {
	i := slices.IndexFunc(r.Results, func(res Result) bool { return res.Slug == slug })
	if i < 0 {
		return Result{}, false
	}
	return r.Results[i], true
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
