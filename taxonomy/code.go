package taxonomy

import "strings"

// A Code names why a call failed: FAMILY.name[.detail]. It is an error, so that errors.Is matches both an exact
// code and a whole family:
//
//	errors.Is(err, taxonomy.RateLimited) // this code
//	errors.Is(err, taxonomy.Validation)  // any VALIDATION.* code
//
// The zero Code is empty and means that nothing failed. Codes are compared byte for byte. A code is never given
// another meaning.
type Code string

// Families. A family matches itself and every code below it.
const (
	Validation    Code = "VALIDATION"    // the request is wrong: fix the input
	Auth          Code = "AUTH"          // the caller is not known or not allowed
	Conflict      Code = "CONFLICT"      // the request contradicts the state of the resource or of the key
	RateLimit     Code = "RATE_LIMIT"    // too many requests
	Dependency    Code = "DEPENDENCY"    // a dependency of the server is slow or down
	Transient     Code = "TRANSIENT"     // a failure that is expected to pass
	Provider      Code = "PROVIDER"      // a state of the operation that the provider named
	Configuration Code = "CONFIGURATION" // no repetition can succeed until a setting changes
	Caller        Code = "CALLER"        // the caller gave up
)

// Codes about the Idempotency-Key. redo's server sends them, and redo's client understands them.
const (
	// KeyMissing: the route requires an Idempotency-Key and the request has none.
	KeyMissing Code = "VALIDATION.idempotency_key.missing"
	// KeyMalformed: the key is empty, too long, not printable ASCII, badly quoted, given twice, or not in the
	// route's stricter format.
	KeyMalformed Code = "VALIDATION.idempotency_key.malformed"
	// PayloadMismatch: the key was used for another payload. It is never retried.
	PayloadMismatch Code = "CONFLICT.idempotency.payload_mismatch"
	// InFlight: the first request with this key is still running.
	InFlight Code = "CONFLICT.idempotency.in_flight"
	// KeyExpired: the key is older than the server's retention, so the server may have forgotten it.
	KeyExpired Code = "CONFLICT.idempotency.expired"
	// ResultNotStored: the operation was applied, and its response was too large to keep.
	ResultNotStored Code = "CONFLICT.idempotency.result_not_stored"
	// OutcomeUnknown: the server knows no outcome of the first request with this key, and refuses to run it again.
	OutcomeUnknown Code = "CONFLICT.idempotency.outcome_unknown"
	// Duplicate: the provider reported that the operation was applied before. It counts as a success.
	Duplicate Code = "PROVIDER.duplicate"
)

// Codes that follow from a status or from a transport error.
const (
	RateLimited      Code = "RATE_LIMIT.exceeded"
	Timeout          Code = "DEPENDENCY.timeout"
	Unavailable      Code = "DEPENDENCY.unavailable"
	Unauthenticated  Code = "AUTH.unauthenticated"
	Forbidden        Code = "AUTH.forbidden"
	ProxyAuth        Code = "AUTH.proxy"
	BadRequest       Code = "VALIDATION.bad_request"
	NotFound         Code = "VALIDATION.not_found"
	MethodNotAllowed Code = "VALIDATION.method_not_allowed"
	Gone             Code = "VALIDATION.gone"
	LengthRequired   Code = "VALIDATION.length_required"
	ContentTooLarge  Code = "VALIDATION.content_too_large"
	URITooLong       Code = "VALIDATION.uri_too_long"
	MediaType        Code = "VALIDATION.unsupported_media_type"
	Unprocessable    Code = "VALIDATION.unprocessable"
	ConflictState    Code = "CONFLICT.state"
	Precondition     Code = "CONFLICT.precondition_failed"
	PreconditionReq  Code = "CONFLICT.precondition_required"
	Internal         Code = "TRANSIENT.internal"
	Reset            Code = "TRANSIENT.reset"
	EOF              Code = "TRANSIENT.eof"
	Truncated        Code = "TRANSIENT.truncated"
	GoAway           Code = "TRANSIENT.goaway"
	RefusedStream    Code = "TRANSIENT.refused_stream"
	Connection       Code = "TRANSIENT.connection"
	TooEarly         Code = "TRANSIENT.too_early"
	NotImplemented   Code = "CONFIGURATION.not_implemented"
	HTTPVersion      Code = "CONFIGURATION.http_version"
	TLS              Code = "CONFIGURATION.tls"
	BadURL           Code = "CONFIGURATION.url"
	UnknownHost      Code = "CONFIGURATION.unknown_host"
	TooManyRedirects Code = "CONFIGURATION.redirects"
	// RedirectNotFollowed: the response is a redirect that the client does not follow, so it is no success.
	RedirectNotFollowed Code = "CONFIGURATION.redirect_not_followed"
	CallerCanceled      Code = "CALLER.canceled"
	CallerDeadline      Code = "CALLER.deadline"
	InvalidRequest      Code = "VALIDATION.request"
	InvalidOperation    Code = "VALIDATION.operation"
	BodyNotReplayable   Code = "VALIDATION.body_not_replayable"
	ClientClosed        Code = "VALIDATION.client_closed"
)

// Error returns the code itself.
func (c Code) Error() string { return string(c) }

// Is reports whether target is this code, its family, or another dotted prefix of it. errors.Is calls it.
func (c Code) Is(target error) bool {
	t, ok := target.(Code)
	return ok && c.In(t)
}

// In reports whether c is the code family, or lies below it: "CONFLICT.state" is in "CONFLICT". No code is in the
// empty code.
func (c Code) In(family Code) bool {
	if family == "" {
		return false
	}
	rest, ok := strings.CutPrefix(string(c), string(family))
	return ok && (rest == "" || rest[0] == '.')
}

// Family returns the part before the first dot: Family of "AUTH.forbidden" is Auth.
func (c Code) Family() Code {
	family, _, _ := strings.Cut(string(c), ".")
	return Code(family)
}
