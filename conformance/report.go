package conformance

import (
	"maps"
	"slices"
	"time"
)

// Schema names the format of a report's JSON. A format with this name only ever gains members. Any other change
// gets a new name.
const Schema = "redo.conformance/1"

// Report is the result of a run. It marshals to JSON and back without loss, so that reports can be stored and
// compared.
type Report struct {
	Schema  string `json:"schema"`
	Target  string `json:"target,omitempty"` // the target's name
	BaseURL string `json:"base_url"`
	Profile string `json:"profile"`
	Seed    uint64 `json:"seed"`
	// Started is the start time of the run. Micros is the run's duration in microseconds.
	Started time.Time `json:"started"`
	Micros  int64     `json:"took_us"`
	// Results holds the results of all selected cases, in the order of Cases. It is complete even if the run was
	// stopped: a case that did not run has the verdict Harness.
	Results []Result `json:"results"`
	// Stopped is the reason why the run stopped early. It is nil if the run finished.
	Stopped *Stopped `json:"stopped,omitempty"`
}

// Stopped describes why a run stopped early.
type Stopped struct {
	// Reason is StopConfig or another of these constants.
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// These are the reasons of Stopped.
const (
	// StopConfig means that the target is configured wrongly.
	StopConfig = "config"
	// StopUnreachable means that no connection to the target can be made, from the start or any more.
	StopUnreachable = "unreachable"
	// StopCanceled means that the caller's context ended.
	StopCanceled = "canceled"
	// StopFailFast means that a MUST was broken under FailFast.
	StopFailFast = "fail-fast"
	// StopFault means that the harness itself failed.
	StopFault = "fault"
)

// Result is the result of one case.
type Result struct {
	Slug    string   `json:"slug"`
	Level   Level    `json:"level"`
	Verdict Verdict  `json:"verdict"`
	Rule    string   `json:"rule"`
	Why     string   `json:"why"`
	Sources []Source `json:"sources"`
	// Reason explains why a case was skipped, blocked or not judged.
	Reason string `json:"reason,omitempty"`
	// Findings holds all findings, the most severe first.
	Findings []Finding `json:"findings,omitempty"`
	// Expected is the baseline's reason for this case. It is empty if the baseline does not have the case.
	Expected string `json:"expected_failure,omitempty"`
	// OnlyConcurrent is set if the case failed beside other cases but not when it ran again alone.
	OnlyConcurrent bool `json:"only_concurrent,omitempty"`
	// Effects is the change in the number of effects at the last count. It is nil if effects were not counted.
	Effects *int `json:"effects,omitempty"`
	// Exchanges holds the exchanges of the case. It is empty for results that are a pass or skipped.
	Exchanges []*Exchange `json:"exchanges,omitempty"`
	// Curl is a shell command that sends the requests again. It is empty if no such command can repeat the case. A
	// principal's headers are variables in it, such as $ALICE_AUTHORIZATION.
	Curl string `json:"curl,omitempty"`
	// Rerun holds the flags of redo check that run this case again with its seed. A program uses Only and Seed.
	Rerun string `json:"rerun,omitempty"`
	// Micros is the duration of the case in microseconds.
	Micros int64 `json:"took_us"`
}

// These are the exit codes.
const (
	ExitConforms    = 0
	ExitFailed      = 1 // a MUST failed or could not be shown, or an expected failure now passes
	ExitConfig      = 2 // wrong options, a wrong description, or no case selected
	ExitUnreachable = 3 // the target can't be reached, or the baseline case failed
	ExitFault       = 4 // the run was stopped, or is itself at fault
)

// ExitCode returns the exit status for a program that ran the cases. A broken rule has precedence over an
// incomplete run, because it has its evidence.
//
// A MUST that is inconclusive or blocked counts as a failure, even if its failure is expected, because nothing was
// shown. If strict is true, this holds for rules of all levels. Expected failures count only when they pass.
// Outcome returns the same result in words.
func (r Report) ExitCode(strict bool) int {
	stopped := func(reason string) bool { return r.Stopped != nil && r.Stopped.Reason == reason }
	broken, unproven, faulty := false, false, r.Stopped != nil || len(r.Results) == 0
	for _, res := range r.Results {
		if res.Slug == slugBaseline && res.Verdict.broken() && res.Expected == "" {
			return ExitUnreachable
		}
		if res.Verdict == Inconclusive || res.Verdict == Blocked {
			unproven = unproven || res.Failed(strict)
		} else {
			broken = broken || res.Failed(strict)
		}
		faulty = faulty || res.Verdict == Harness
	}
	switch {
	case stopped(StopConfig):
		return ExitConfig
	case broken:
		return ExitFailed
	case stopped(StopUnreachable):
		return ExitUnreachable
	case unproven:
		return ExitFailed
	case faulty:
		return ExitFault
	}
	return ExitConforms
}

// Failed reports whether the result keeps the target from conforming, by the rules of ExitCode. If strict is true,
// rules of all levels count.
func (r Result) Failed(strict bool) bool {
	switch r.Verdict {
	case Pass:
		return r.Expected != ""
	case Fail:
		return r.Expected == ""
	case Warn:
		return strict && r.Expected == ""
	case Inconclusive, Blocked:
		return strict || r.Level == Must
	}
	return false
}

// Count returns the number of results per verdict. It omits verdicts without results.
func (r Report) Count() map[Verdict]int {
	n := map[Verdict]int{}
	for _, res := range r.Results {
		n[res.Verdict]++
	}
	return n
}

// Result returns a case's result. The value ok is false if the case was not selected.
func (r Report) Result(slug string) (res Result, ok bool) {
	i := slices.IndexFunc(r.Results, func(res Result) bool { return res.Slug == slug })
	if i < 0 {
		return Result{}, false
	}
	return r.Results[i], true
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
