package redo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/redo-go/redo/internal/decision"
	"github.com/redo-go/redo/internal/exchange"
	"github.com/redo-go/redo/limit"
	"github.com/redo-go/redo/taxonomy"
)

// An Effect is the known effect of an operation at the server. The zero value is EffectUnknown.
type Effect = taxonomy.Effect

// The known effects.
const (
	// NotApplied: no attempt was sent, or the server refused each one before any work.
	NotApplied = taxonomy.NotApplied
	// EffectUnknown: the request was sent, and no response shows the effect. The operation stays pending under its key.
	EffectUnknown = taxonomy.EffectUnknown
	// Applied: the server reported the effect.
	Applied = taxonomy.Applied
)

// Reasons why a call ended without (another) attempt. errors.Is finds them in an [Error].
var (
	// ErrClosed: the client was closed before the call.
	ErrClosed = errors.New("redo: client is closed")
	// ErrNotReplayable: the request's body can't be read a second time. It has no Request.GetBody and is longer than
	// WithMaxBufferedBody.
	ErrNotReplayable = decision.ErrNotReplayable
	// ErrKeyless: the request carries no key, and it was, or may have been, written.
	ErrKeyless = decision.ErrKeyless
	// ErrBudget: the destination's retry budget is spent.
	ErrBudget = limit.ErrBudget
	// ErrTooLate: the wait before the next attempt would pass the deadline, RetryPolicy.MaxElapsed, or the key's
	// retention. Error.RetryAt is the time at which that wait ends.
	ErrTooLate = decision.ErrTooLate
	// ErrAttempts: the policy's attempts are used up.
	ErrAttempts = decision.ErrAttempts
	// ErrAttemptTimeout: an attempt took longer than RetryPolicy.AttemptTimeout or the rest of RetryPolicy.MaxElapsed.
	ErrAttemptTimeout = exchange.ErrTimeout
	// ErrBreakerOpen: the circuit breaker of this destination is open.
	ErrBreakerOpen = limit.ErrBreakerOpen
	// ErrLimited: the client's own rate limit left no room before the deadline.
	ErrLimited = limit.ErrLimited
	// ErrContradiction: a [Finding] contradicts the operation's recorded outcome.
	ErrContradiction = errors.New("redo: the finding contradicts the recorded outcome")
)

// An Error is the error of every failed call. It holds the code, the attempts, and the known effect.
//
// errors.Is matches its code (taxonomy.RateLimited), the code's family (taxonomy.Validation), the reason why the call
// ended, and the causes that [Error.Unwrap] returns. An Error contains no body, header or query string, except in
// Response.
type Error struct {
	// Code names the failure. It is never empty.
	Code taxonomy.Code
	// StatusCode is the last response's status, zero if the last attempt got none.
	StatusCode int
	// Operation is the operation's name, empty if it has none.
	Operation string
	// Key is the Idempotency-Key of the attempts, empty if they carried none.
	Key string
	// Attempts are the attempts of this call, oldest first; empty if there was none.
	Attempts []Attempt
	// Effect is the operation's known effect, over this call and earlier ones. For taxonomy.PayloadMismatch it is the
	// effect of this payload. The operation's first payload keeps its own.
	Effect Effect
	// RetryAt is the earliest time at which another attempt makes sense. Zero: none is known.
	RetryAt time.Time
	// Response is the last response, nil if there was none. Its body holds the head, and needs no Close.
	Response *http.Response
	// Err is the cause: the reason why the call ended, joined with the last attempt's error. It is nil if the response
	// is the whole cause.
	Err error

	head    []byte // of the response's body
	cut     error  // why head is not the whole body; nil if it is
	whole   bool   // Response is as the server sent it: its body did not break off
	said    bool   // the server stated the code
	sameKey bool   // another call of the same operation sends the same key, or needs none
	retry   bool   // another call may bring another response
}

// Error returns one line with the operation's name, the code, the status, the number of attempts, the effect and the
// cause. It contains no query and no body.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("redo: ")
	if e.Operation != "" {
		fmt.Fprintf(&b, "operation %q: ", e.Operation)
	}
	b.WriteString(string(e.Code))
	if e.StatusCode != 0 {
		fmt.Fprintf(&b, " (status %d)", e.StatusCode)
	}
	switch n := len(e.Attempts); {
	case n == 0:
		b.WriteString(", nothing was sent")
	case n == 1:
		b.WriteString(" after 1 attempt")
	default:
		fmt.Fprintf(&b, " after %d attempts", n)
	}
	b.WriteString(", effect " + e.Effect.String())
	if e.Err != nil {
		b.WriteString(": " + strings.ReplaceAll(e.Err.Error(), "\n", "; "))
	} else if e.Code.In(taxonomy.PayloadMismatch) && e.Effect == NotApplied {
		b.WriteString(": " + e.Code.Hint())
	}
	return b.String()
}

// MarshalText returns the line of Error, so that JSON has no header, credential or body of Response.
func (e *Error) MarshalText() ([]byte, error) { return []byte(e.Error()), nil }

// Unwrap returns the code, the cause, and the causes of earlier attempts. Timeouts and cancellations of earlier
// attempts are left out: the call did not end by them. If an attempt sent the request, the errors of those that sent
// nothing are left out too. An SDK takes a failed connection as proof that it may repeat a request without a key.
func (e *Error) Unwrap() []error {
	if e == nil {
		return nil // of Report.Err: errors.Is and errors.As unwrap it
	}
	errs := append(make([]error, 0, 2+len(e.Attempts)), e.Code)
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	sent := slices.ContainsFunc(e.Attempts, func(a Attempt) bool { return a.WireSends > 0 })
	for _, a := range e.Attempts {
		timeout, ok := errors.AsType[interface {
			error
			Timeout() bool
		}](a.Err)
		if a.Err != nil && (a.WireSends > 0 || !sent) && !errors.Is(a.Err, context.Canceled) && !(ok && timeout.Timeout()) {
			errs = append(errs, a.Err)
		}
	}
	return errs
}

// apart returns a copy of e with a response of its own, so that each of its readers can read the body.
func (e *Error) apart() *Error {
	if e == nil || e.Response == nil {
		return e
	}
	own, resp := *e, *e.Response
	resp.Header, resp.Body = resp.Header.Clone(), exchange.ErrorBody(e.head, e.cut)
	own.Response = &resp
	return &own
}

// Timeout reports whether the caller's deadline or the last attempt's time limit passed. It makes an Error a
// net.Error, which some SDKs look for.
func (e *Error) Timeout() bool {
	return e.Code.In(taxonomy.CallerDeadline) || e.Code.In(taxonomy.Timeout) && e.StatusCode == 0
}

// Temporary returns [SafeToRetry] of e. Together with Timeout it implements net.Error.
func (e *Error) Temporary() bool { return SafeToRetry(e) }

// Said reports whether the server stated the code. Otherwise the client inferred it from a status or an error.
func (e *Error) Said() bool { return e.said }

// An Attempt is one request of an operation.
type Attempt struct {
	// Number counts from 1 within one call.
	Number int
	// Status is the response's status, zero if there was none.
	Status int
	// Code is the attempt's classification, empty for a success.
	Code taxonomy.Code
	// Err is the transport's error, nil if there was a response.
	Err error
	// Wait is the client's wait after this attempt before the next one. It is zero for the last attempt.
	Wait time.Duration
	// Elapsed is the duration of the attempt. Waiting for a limiter does not count.
	Elapsed time.Duration
	// WireSends is the number of times that the request was written to a connection. It is 0 if never, and 2 or
	// more if net/http resent it on a new connection or a redirect was followed. A custom transport without
	// net/http/httptrace counts as one.
	WireSends int
}

// CodeOf returns the code of a failed call, or of a bare taxonomy.Code in err's tree. It returns "" if there is none,
// and for nil.
func CodeOf(err error) taxonomy.Code {
	if e, ok := errors.AsType[*Error](err); ok && e != nil {
		return e.Code
	}
	code, _ := errors.AsType[taxonomy.Code](err)
	return code
}

// SafeToRetry reports whether the same call may be made again without the risk of a second effect, and with a chance
// of another response. It is false for terminal failures. It is also false for a transient failure of unknown effect
// if the next call would send a new key. The next call sends the same key for a stored operation, with [WithKey], and
// with [DerivedKeys]. GET, PUT and other idempotent methods need none. SafeToRetry is false for nil, and for an error
// without an [*Error] in its tree.
func SafeToRetry(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e != nil && e.retry && (e.sameKey || e.Effect == NotApplied)
}
