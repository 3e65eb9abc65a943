package conformance

// A Verdict is what a case came to. Its text is stable: reports hold it.
type Verdict string

// The verdicts.
const (
	// Pass: the rule was seen to be kept.
	Pass Verdict = "pass"
	// Fail: a rule of level MUST was seen to be broken, or a lower one in a way that no level excuses.
	Fail Verdict = "fail"
	// Warn: a rule of level SHOULD was seen to be broken.
	Warn Verdict = "warn"
	// Info: the case only records how the target behaves.
	Info Verdict = "info"
	// Skip: the target does not declare what the case needs, or the rule does not apply to it.
	Skip Verdict = "skip"
	// Blocked: a case that this one stands on did not pass, so that nothing can be said.
	Blocked Verdict = "blocked"
	// Inconclusive: there is no oracle, or the target did not do what its description says. It is no pass.
	Inconclusive Verdict = "inconclusive"
	// Harness: the run itself failed, or was ended, before the case was over. It says nothing about the target.
	Harness Verdict = "harness"
)

// Verdicts returns all verdicts, in the order in which summaries list them.
func Verdicts() []Verdict {
	return []Verdict{Pass, Fail, Warn, Info, Skip, Blocked, Inconclusive, Harness}
}

// weight orders what may be found in one case; the heaviest finding is the case's verdict.
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

// broken reports whether the verdict says that a rule was not kept.
func (v Verdict) broken() bool { return v == Fail || v == Warn }

// A Level says how much a rule binds, in the words of RFC 2119.
type Level string

// The levels.
const (
	Must   Level = "MUST"
	Should Level = "SHOULD"
	May    Level = "MAY"  // only as the level of a source
	Inform Level = "INFO" // the case judges nothing
)

// verdict is what breaking a rule of this level comes to.
func (l Level) verdict() Verdict {
	switch l {
	case Must:
		return Fail
	case Should:
		return Warn
	}
	return Info
}
