package taxonomy

import "net/http"

// statusCode returns the code of a status of 400 or above without other evidence. A status that is not listed is
// treated as the x00 of its class (RFC 9110, section 15), and an invalid status as 500 (the same section).
func statusCode(status int) Code {
	switch status {
	case http.StatusUnauthorized:
		return Unauthenticated
	case http.StatusForbidden:
		return Forbidden
	case http.StatusNotFound:
		return NotFound
	case http.StatusMethodNotAllowed:
		return MethodNotAllowed
	case http.StatusProxyAuthRequired:
		return ProxyAuth
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return Timeout
	case http.StatusConflict, http.StatusLocked:
		return ConflictState
	case http.StatusGone:
		return Gone
	case http.StatusLengthRequired:
		return LengthRequired
	case http.StatusPreconditionFailed:
		return Precondition
	case http.StatusRequestEntityTooLarge:
		return ContentTooLarge
	case http.StatusRequestURITooLong:
		return URITooLong
	case http.StatusUnsupportedMediaType:
		return MediaType
	case http.StatusUnprocessableEntity:
		return Unprocessable
	case http.StatusTooEarly:
		return TooEarly
	case http.StatusPreconditionRequired:
		return PreconditionReq
	case http.StatusTooManyRequests:
		return RateLimited
	case statusClientClosed:
		return Connection
	case http.StatusNotImplemented:
		return NotImplemented
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusFailedDependency:
		return Unavailable
	case http.StatusHTTPVersionNotSupported:
		return HTTPVersion
	}
	if status >= 400 && status < 500 {
		return BadRequest
	}
	return Internal
}

// statusClientClosed is nginx's status for a client that closed the connection, and Google's for CANCELLED. The
// operation may have run.
const statusClientClosed = 499

// statusEffect returns the effect that a response of 400 or above proves. NotApplied needs a status that refuses
// before any work, and a code that does not contradict it. Everything else is unknown. reported is true if the code
// comes from the server's words or from the provider's profile, and false if it was inferred from the status.
func statusEffect(status int, code Code, class Class, reported bool) Effect {
	switch {
	case code.In(Duplicate), code.In(ResultNotStored):
		return Applied
	case code.In(KeyExpired), code.In(OutcomeUnknown), code.In(InFlight):
		return EffectUnknown
	case code.In(Dependency), code.In(Transient):
		// Work had begun, or the server does not know.
		return EffectUnknown
	case status == http.StatusTooManyRequests:
		return NotApplied
	case status == http.StatusConflict && !(reported && code.refuses()):
		// A 409 often means that the same operation is running, or was applied before.
		return EffectUnknown
	case isRefusal(status) && (class == ClassTerminal || code.In(RateLimit)):
		// Apart from a rate limit, a refusal that the server wants repeated can stand for an operation that is
		// running.
		return NotApplied
	}
	return EffectUnknown
}

// refuses reports whether a reported code rules out an effect, so that even a 409 is a refusal. An unknown code of
// the families CONFLICT and PROVIDER does not.
func (c Code) refuses() bool {
	return c.known() || c.In(Validation) || c.In(Auth) || c.In(Configuration) || c.In(RateLimit)
}

// isRefusal reports whether a server sends the status before it does any work. Missing on purpose:
//   - 406 may be decided when the response is written, after the work.
//   - 408, 423, 424, 425 and 499 can stand for an operation that is running or was cut off. Go's client sends no
//     early data, so a 425 is rarely about that.
//   - Statuses outside of the registry have no defined meaning.
func isRefusal(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden,
		http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusProxyAuthRequired, http.StatusConflict,
		http.StatusGone, http.StatusLengthRequired, http.StatusPreconditionFailed,
		http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong, http.StatusUnsupportedMediaType,
		http.StatusRequestedRangeNotSatisfiable, http.StatusExpectationFailed, http.StatusMisdirectedRequest,
		http.StatusUnprocessableEntity, http.StatusUpgradeRequired, http.StatusPreconditionRequired,
		http.StatusRequestHeaderFieldsTooLarge, http.StatusUnavailableForLegalReasons,
		http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return true
	}
	return false
}
