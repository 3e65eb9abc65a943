package taxonomy

import (
	"context"
	"errors"
	"net/http"
	"strings"
)

// An Answer holds all known facts about one attempt. Its zero value is an attempt that was never sent and failed
// for no known reason.
type Answer struct {
	// Caller is the caller's own context error, or its cause, if that context has ended. It is nil otherwise.
	// An attempt's own timeout belongs in Err. Caller outweighs everything, so leave it nil to keep a response
	// that arrived at the same instant. If the cause hides whether a deadline passed, set
	// errors.Join(cause, ctx.Err()).
	Caller error
	// Err is the transport's error: either there was no response, or reading its body failed. In the second case
	// Status and Header may be set too. An error that wraps a Code has that code.
	Err error
	// Sent is true if the request's head was, or may have been, written to the wire. A Status implies it.
	Sent bool
	// Status is the response's status. It is zero if there was no response.
	Status int
	// Header is the response's header. It may be nil.
	Header http.Header
	// Body is a bounded prefix of an error's body. Above 64 KiB it is ignored.
	Body []byte
	// Directives names the headers that are read as should-retry directives, with the values "true" and "false".
	// The first header with one of them counts. Nil reads none. See [DefaultDirectives].
	Directives []string
	// StatusCodes holds the provider's own meaning of a status, for example 422 → PayloadMismatch for a server
	// that follows draft-ietf-httpapi-idempotency-key-header. It is used only for a Status of 400 or above that
	// has no code in its headers or body. A CONFLICT.idempotency meaning does not apply to a replayed or stored
	// response, since that status is the operation's own. Nil means none.
	StatusCodes map[int]Code
	// Codes holds the provider's own words: the code, type, name or number in its error bodies. They win over the
	// package's shared table. An empty Code hides a word of that table. A value that is no valid code, or is in
	// the CALLER family, counts as empty. Nil means none.
	Codes map[string]Code
	// Markers names further headers that mark a replayed response of this provider. See [ReplayedBy]. Nil means
	// none.
	Markers []string
}

// DefaultDirectives are the should-retry headers in common use. Do not change the slice; make another.
var DefaultDirectives = []string{"Stripe-Should-Retry", "X-Should-Retry"}

// Classify returns the verdict on one attempt. It is a pure function, never panics, and does not allocate for a
// 2xx. The evidence has this precedence:
//
//  1. Caller: the code is [CallerDeadline] or [CallerCanceled].
//  2. A 2xx without an Err is a success without a code, with any headers and body. So are 1xx and 304,
//     with an unknown effect. Any other 3xx is [RedirectNotFollowed].
//  3. [PayloadMismatch], [KeyExpired], [OutcomeUnknown] and [ResultNotStored] are terminal.
//  4. [Duplicate] is a success.
//  5. A response that the server replayed, or stored for the key, is Final. It is terminal even if its code is
//     transient, since a repetition would return it again.
//  6. A directive decides the class; the rest decides the code.
//  7. The code in the Error-Code header, or in the body. If the body has only a family or no code, a problem
//     document's "retryable" decides the class.
//  8. Rate-limit headers under a 403, and Repeatability-Result under a 412.
//  9. StatusCodes, then the status itself.
//  10. The kind of Err, if there is no status or one below 400.
//
// The Effect is NotApplied only if the request was never sent, or was certainly refused before any work. A 409
// without a recognized code is unknown. So is any response whose words say that an operation is running, was
// repeated, or has an uncertain outcome. So is a 403 of squid, which may withhold a response.
func Classify(a Answer) Verdict {
	switch {
	case a.Caller != nil:
		return callerVerdict(a)
	case a.Status == 0 || a.Err != nil && below400(a.Status):
		return transportVerdict(a)
	case below400(a.Status):
		return acceptedVerdict(a)
	default:
		return refusalVerdict(a)
	}
}

func below400(status int) bool { return status >= 100 && status < 400 }

// idempotencyConflict is the prefix of the codes that are about the key's record.
const idempotencyConflict Code = "CONFLICT.idempotency"

func callerVerdict(a Answer) Verdict {
	v := Verdict{Code: CallerCanceled, Effect: sentEffect(a)}
	if errors.Is(a.Caller, context.DeadlineExceeded) {
		v.Code = CallerDeadline
	}
	return v
}

func transportVerdict(a Answer) Verdict {
	v := Verdict{Code: transportCode(a.Err), Effect: sentEffect(a)}
	v.Class = v.Code.class()
	if v.Code == RefusedStream && a.Status == 0 {
		// RFC 9113, section 8.7: the stream was closed before any processing.
		v.Effect = NotApplied
	}
	return v
}

func sentEffect(a Answer) Effect {
	if a.Sent || a.Status != 0 {
		return EffectUnknown
	}
	return NotApplied
}

// acceptedVerdict classifies a response below 400.
func acceptedVerdict(a Answer) Verdict {
	v := Verdict{Class: ClassSuccess, Final: isFinal(a.Header, a.Markers)}
	switch {
	case a.Status >= 200 && a.Status < 300:
		v.Effect = Applied
	case a.Status >= 300 && a.Status != http.StatusNotModified:
		v.Code = RedirectNotFollowed
		v.Class = v.Code.class()
	}
	return v
}

// refusalVerdict classifies a response of 400 or above, or of an invalid status.
func refusalVerdict(a Answer) Verdict {
	r := readReport(a)
	v := Verdict{Code: r.code, Said: r.code != "", Final: isFinal(a.Header, a.Markers)}
	if v.Code == "" {
		v.Code = headerCode(a.Status, a.Header)
	}
	if c := a.StatusCodes[a.Status]; v.Code == "" && !(v.Final && c.In(idempotencyConflict)) {
		v.Code = c
	}
	reported := v.Code != ""
	if !reported {
		v.Code = statusCode(a.Status)
	}
	v.Class = v.Code.class()

	switch {
	case v.Code.neverRetried(), v.Code.In(Duplicate):
	case v.Code.In(InFlight):
		// A request that is still running has no final response, even if a marker reports one.
		v.Final = false
		v.obey(a, r)
	default:
		v.obey(a, r)
	}
	if v.Final && v.Class == ClassTransient {
		v.Class = ClassTerminal
	}

	v.Effect = statusEffect(a.Status, v.Code, v.Class, reported)
	// A server that keeps a 5xx for the key got further than a refusal.
	if v.Effect == NotApplied && (r.unsettled || v.Final && a.Status >= 500 || mayWithhold(a)) {
		v.Effect = EffectUnknown
	}
	return v
}

// mayWithhold reports whether squid may have sent the 403 in place of the server's response. Its page is the same for a
// request that it refuses and for a response that it withholds (http_reply_access, reply_body_max_size).
func mayWithhold(a Answer) bool {
	return a.Status == http.StatusForbidden && a.Header.Get("X-Squid-Error") != ""
}

// obey lets the server's directive decide the class. Without one, "retryable" decides it if the code does not.
func (v *Verdict) obey(a Answer, r report) {
	if retry, ok := directive(a.Header, a.Directives); ok {
		v.Said = true
		v.Class = classOf(retry)
		return
	}
	if r.retryable != nil && !r.code.known() {
		v.Said = true
		v.Class = classOf(*r.retryable)
	}
}

func classOf(retry bool) Class {
	if retry {
		return ClassTransient
	}
	return ClassTerminal
}

// directive returns the first should-retry directive among names, and whether there is one. Values other than
// "true" and "false" are ignored.
func directive(h http.Header, names []string) (retry, ok bool) {
	for _, name := range names {
		value := strings.TrimSpace(h.Get(name))
		switch {
		case strings.EqualFold(value, "true"):
			return true, true
		case strings.EqualFold(value, "false"):
			return false, true
		}
	}
	return false, false
}
