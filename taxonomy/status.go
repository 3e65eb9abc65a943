package taxonomy

import "net/http"

// statusCode returns what a status of 400 or above means when nothing else is known. A status that it doesn't
// list is taken as the x00 of its class (RFC 9110, section 15), and an invalid one as a 500 (the same
// section).
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
	case http.StatusConflict:
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
	case http.StatusNotImplemented:
		return NotImplemented
	case http.StatusBadGateway, http.StatusServiceUnavailable:
		return Unavailable
	case http.StatusHTTPVersionNotSupported:
		return HTTPVersion
	}
	if status >= 400 && status < 500 {
		return BadRequest
	}
	return Internal
}

// statusEffect returns what an answer of 400 or above tells of the effect. NotApplied needs a status that
// refuses before any work and a code that doesn't contradict it; all else is unknown.
func statusEffect(status int, code Code, class Class) Effect {
	switch {
	case code.In(Duplicate), code.In(ResultNotStored):
		return Applied
	case code.In(KeyExpired), code.In(OutcomeUnknown), code.In(InFlight):
		return EffectUnknown
	case code.In(Dependency), code.In(Transient) && !code.In(TooEarly):
		// The server says that work had begun, or doesn't know.
		return EffectUnknown
	}
	switch status {
	case http.StatusTooEarly, http.StatusTooManyRequests, http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return NotApplied
	case http.StatusRequestTimeout:
		return EffectUnknown
	}
	// A 4xx that the server wants repeated is not a refusal: a 409 with a directive can stand for an operation
	// that is still running. A rate limit is one, under any 4xx.
	if status >= 400 && status < 500 && (class == ClassTerminal || code.In(RateLimit)) {
		return NotApplied
	}
	return EffectUnknown
}
