package taxonomy

// An Effect is the known effect of an operation at the server. The zero value is EffectUnknown, the only one that
// is always safe to assume.
type Effect uint8

const (
	// EffectUnknown: the request was, or may have been, sent, and no final response is known.
	EffectUnknown Effect = iota
	// NotApplied: the request was never sent, or was refused before any work was done.
	NotApplied
	// Applied: the server reported that the operation took effect.
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

// A Class is the expected result of sending the same request again under the same key.
type Class uint8

const (
	// ClassTerminal: repeating the request cannot help. It is the zero value, so that only failures that are known
	// to be transient are repeated.
	ClassTerminal Class = iota
	// ClassTransient: the same request, under the same key, may succeed later.
	ClassTransient
	// ClassSuccess: the response is the operation's result.
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

// A Verdict is the classification of one attempt.
type Verdict struct {
	// Code names the failure. It is empty for 1xx, 2xx and 304.
	Code Code
	// Class decides whether the request may be repeated.
	Class Class
	// Effect is the effect that this attempt alone proves. An earlier attempt under the same key may have had
	// another one.
	Effect Effect
	// Said is true if the server reported the code or the class: in a body, an Error-Code header, or a should-retry
	// directive. It is false if the verdict was inferred from a status or from a transport error.
	Said bool
	// Final is true if the server has no other response for this key: this one was replayed from, or stored in,
	// its record.
	Final bool
}

// Retry reports whether the same request may be sent again under the same key.
func (v Verdict) Retry() bool { return v.Class == ClassTransient }

// Hint returns the [Code.Hint] of the verdict's code. It is empty for a success.
func (v Verdict) Hint() string { return v.Code.Hint() }
