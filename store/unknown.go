package store

// unknown is a result that no other code writes.
const unknown = "redo: what this work did is not known, and it must not be done again (9f1c52e07ab84d36)"

// UnknownOutcome returns the outcome of work that must not be done again although its effect is unknown. It is
// neither a success nor a refusal. [SettleEnded] uses it.
func UnknownOutcome() Outcome { return Outcome{Result: []byte(unknown)} }

// OutcomeUnknown reports whether the record was settled with [UnknownOutcome]. An operator finds out whether the
// effect was made, and may then Forget the record.
func (r Record) OutcomeUnknown() bool { return r.State == StateComplete && string(r.Result) == unknown }
