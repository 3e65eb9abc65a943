package conformance

// Verdict is the result of a case. Its text is stable, because reports hold it.
type Verdict string

// These are the verdicts.
const (
	// Pass means that the target kept the rule.
	Pass Verdict = "pass"
	// Fail means that the target broke a rule of level MUST, or a lower one in a way that no level excuses.
	Fail Verdict = "fail"
	// Warn means that the target broke a rule of level SHOULD.
	Warn Verdict = "warn"
	// Info means that the case only records how the target behaves.
	Info Verdict = "info"
	// Skip means that the target does not declare a need of the case, or that the rule does not apply to it.
	Skip Verdict = "skip"
	// Blocked means that a prerequisite of the case did not pass, so no judgement is possible.
	Blocked Verdict = "blocked"
	// Inconclusive means that there is no oracle, or that the target did not behave as its description states. It is
	// not a pass.
	Inconclusive Verdict = "inconclusive"
	// Harness means that the run itself failed, or was stopped, before the case ended. It is not a statement about the
	// target.
	Harness Verdict = "harness"
)

// Verdicts returns all verdicts, in the order in which summaries list them.
func Verdicts() []Verdict {
	return []Verdict{Pass, Fail, Warn, Info, Skip, Blocked, Inconclusive, Harness}
}

// weight orders the possible findings of a case. The heaviest finding is the case's verdict.
func (v Verdict) weight() int {
	switch v {
	case Harness:
		return 7
	case Fail:
		return 6
	case Blocked:
		return 5
	case Inconclusive:
		return 4
	case Skip:
		return 3
	case Warn:
		return 2
	case Info:
		return 1
	}
	return 0
}

// broken reports whether the verdict means that a rule was broken.
func (v Verdict) broken() bool { return v == Fail || v == Warn }

// Level is the strength of a rule, in the words of RFC 2119.
type Level string

// These are the levels.
const (
	Must   Level = "MUST"
	Should Level = "SHOULD"
	May    Level = "MAY"  // only as the level of a source
	Inform Level = "INFO" // the case judges nothing
)

// verdict returns the verdict for a broken rule of this level.
func (l Level) verdict() Verdict {
	switch l {
	case Must:
		return Fail
	case Should:
		return Warn
	}
	return Info
}
