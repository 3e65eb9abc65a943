package taxonomy

import (
	"context"
	"errors"
	"net/http"
	"strings"
)

// An Answer is everything that is known after one attempt. Its zero value is an attempt that was never sent
// and failed for no known reason.
type Answer struct {
	// Caller is the caller's own context error, or its cause, when that context has ended; else nil. An
	// attempt's own timeout does not belong here but in Err. It outweighs everything, so a caller that wants
	// to keep an answer that came in the same instant leaves it nil. Where the cause hides whether a deadline
	// passed, give errors.Join(cause, ctx.Err()).
	Caller error
	// Err is the transport's error when there was no usable response, or the one met while reading the
	// response's body: then Status and Header may be set too. An error that wraps a Code says its own code.
	Err error
	// Sent is true when the request's head was, or may have been, written to the wire. A Status implies it.
	Sent bool
	// Status is the response's status, zero when there was no response.
	Status int
	// Header is the response's header; it may be nil.
	Header http.Header
	// Body is a bounded prefix of an error's body. Over 64 KiB it is not read for a code.
	Body []byte
	// Directives names the headers that are read as should-retry directives, "true" or "false"; the first that
	// holds one of them counts. Nil reads none. See [DefaultDirectives].
	Directives []string
	// StatusCodes is the provider's own meaning of a status, for example 422 → PayloadMismatch where the
	// statuses are those of draft-ietf-httpapi-idempotency-key-header. It is used where neither the header nor
	// the body gave a code that can be used, and only for a Status of 400 or above. A CONFLICT.idempotency
	// meaning is not given to an answer that was replayed or stored: that is the operation's own.
	StatusCodes map[int]Code
}

// DefaultDirectives are the should-retry headers in common use. Do not change the slice; make another.
var DefaultDirectives = []string{"Stripe-Should-Retry", "X-Should-Retry"}

// Classify says what an attempt's answer means. It is a pure function, never panics, and doesn't allocate for
// a 2xx. What it weighs first:
//
//  1. Caller: the code is [CallerDeadline] or [CallerCanceled].
//  2. A status below 400 that came without an Err is a success with no code, whatever the headers say.
//  3. [PayloadMismatch], [KeyExpired], [OutcomeUnknown] and [ResultNotStored] are terminal.
//  4. [Duplicate] is a success.
//  5. An answer that the server replayed, or stored as its answer for the key, is Final; it is terminal even
//     where its code is transient, since repeating the request would bring it again.
//  6. A directive decides the class, and the rest the code.
//  7. The code in the Error-Code header, or in the body. Where only the code's family is known, or there is
//     no code, a problem document's "retryable" decides the class.
//  8. StatusCodes, then the status itself.
//  9. The kind of Err, where there is no status or one below 400.
//
// The Effect is NotApplied when the request was never sent, or was refused before any work.
func Classify(a Answer) Verdict {
	switch {
	case a.Caller != nil:
		return callerVerdict(a)
	case a.Status == 0 || a.Err != nil && below400(a.Status):
		return transportVerdict(a)
	case below400(a.Status):
		v := Verdict{Class: ClassSuccess, Final: settled(a.Header)}
		if a.Status >= 200 && a.Status < 300 {
			v.Effect = Applied
		}
		return v
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

// refusalVerdict judges an answer of 400 or above, or of an invalid status.
func refusalVerdict(a Answer) Verdict {
	said := readStatement(a.Header, a.Body)
	v := Verdict{Code: said.code, Said: said.code != "", Final: settled(a.Header)}
	if c := a.StatusCodes[a.Status]; v.Code == "" && !(v.Final && c.In(idempotencyConflict)) {
		// What the record holds is the operation's own answer, so it isn't a word about the key.
		v.Code = c
	}
	if v.Code == "" {
		v.Code = statusCode(a.Status)
	}
	v.Class = v.Code.class()

	switch {
	case v.Code.neverRetried(), v.Code.In(Duplicate):
	case v.Code.In(InFlight):
		// "Still running" contradicts any marker.
		v.Final = false
		v.obey(a, said)
	default:
		v.obey(a, said)
	}
	if v.Final && v.Class == ClassTransient {
		v.Class = ClassTerminal
	}

	v.Effect = statusEffect(a.Status, v.Code, v.Class)
	if v.Final && a.Status >= 500 && v.Effect == NotApplied {
		// The server keeps an answer of its own making for the key, so it got further than a refusal.
		v.Effect = EffectUnknown
	}
	return v
}

// obey lets the server's directive decide the class, or its "retryable" where the code alone doesn't.
func (v *Verdict) obey(a Answer, said statement) {
	if retry, ok := directive(a.Header, a.Directives); ok {
		v.Said = true
		v.Class = classOf(retry)
		return
	}
	if said.retryable != nil && !said.code.known() {
		v.Said = true
		v.Class = classOf(*said.retryable)
	}
}

func classOf(retry bool) Class {
	if retry {
		return ClassTransient
	}
	return ClassTerminal
}

// directive returns the first should-retry directive among names, and whether there is one. A value that is
// neither "true" nor "false" is none.
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
