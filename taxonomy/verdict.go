package taxonomy

// An Effect says what is known of an operation's effect at the server. The zero value is EffectUnknown, the
// only one that is always safe to assume.
type Effect uint8

const (
	// EffectUnknown: the request was, or may have been, sent, and no final answer is known.
	EffectUnknown Effect = iota
	// NotApplied: the request was never sent, or was refused before any work was done.
	NotApplied
	// Applied: the server has said that the operation took effect.
	Applied
)

// String returns "unknown", "not applied" or "applied".
func (e Effect) String() string {
	switch e {
	case NotApplied:
		return "not applied"
	case Applied:
		return "applied"
	default:
		return "unknown"
	}
}

// A Class says what repeating the same request, under the same key, can be expected to bring.
type Class uint8

const (
	// ClassTerminal: repeating the request cannot help. It is the zero value: what is not known to be transient is
	// not repeated.
	ClassTerminal Class = iota
	// ClassTransient: the same request, under the same key, may succeed later.
	ClassTransient
	// ClassSuccess: the answer is the operation's result.
	ClassSuccess
)

// String returns "terminal", "transient" or "success".
func (c Class) String() string {
	switch c {
	case ClassTransient:
		return "transient"
	case ClassSuccess:
		return "success"
	default:
		return "terminal"
	}
}

// A Verdict is what one attempt's answer means.
type Verdict struct {
	// Code is empty for an answer below 400.
	Code Code
	// Class tells whether to repeat the request.
	Class Class
	// Effect is what this attempt, taken alone, tells of the effect.
	Effect Effect
	// Said is true when the server stated the code or the class (a problem body, an Error-Code header, a
	// should-retry directive), and false when it was inferred from a status or from a transport error.
	Said bool
	// Final is true when the server will say nothing else for this key: the answer was replayed from, or
	// stored in, its record.
	Final bool
}

// Retry reports whether the same request may be sent again under the same key.
func (v Verdict) Retry() bool { return v.Class == ClassTransient }

// Hint returns what the caller can do about it: [Code.Hint] of the verdict's code, empty for a success.
func (v Verdict) Hint() string { return v.Code.Hint() }
