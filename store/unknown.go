package store

// unknown is a result that nobody else writes by chance.
const unknown = "redo: what this work did is not known, and it must not be done again (9f1c52e07ab84d36)"

// UnknownOutcome is what a record is settled with when nobody knows what its work did, and it must not be done again: it is
// neither a success nor a refusal. A [TxStore] uses it as [ErrTxEnded] says, and whoever else has to.
func UnknownOutcome() Outcome { return Outcome{Result: []byte(unknown)} }

// OutcomeUnknown reports whether the record was settled with [UnknownOutcome]. An operator reads back what was done, and may
// then Forget the record.
func (r Record) OutcomeUnknown() bool { return r.State == StateComplete && string(r.Result) == unknown }
