package redo

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redo-go/redo/taxonomy"
)

// An Effect says what is known of an operation's effect at the server. The zero value is EffectUnknown.
type Effect = taxonomy.Effect

// What is known of the effect.
const (
	// NotApplied: never sent, or refused before any work, by every attempt that was made.
	NotApplied = taxonomy.NotApplied
	// EffectUnknown: sent, and no final answer. The operation stays pending under its key.
	EffectUnknown = taxonomy.EffectUnknown
	// Applied: the server has said so.
	Applied = taxonomy.Applied
)

// Reasons for which a call ended without (another) attempt. They are found in an [Error] with errors.Is.
var (
	// ErrClosed: the client was closed before the call.
	ErrClosed = errors.New("redo: client is closed")
	// ErrNotReplayable: the request's body can't be read a second time, because Request.GetBody is nil.
	ErrNotReplayable = errors.New("redo: the request body can't be replayed: set Request.GetBody, or pass a bytes.Reader, bytes.Buffer or strings.Reader")
	// ErrKeyless: the request carries no key and was, or may have been, written to the wire.
	ErrKeyless = errors.New("redo: not retried: a request without a key was sent, and its effect is unknown")
	// ErrBudget: the destination's retry budget is spent.
	ErrBudget = errors.New("redo: not retried: the retry budget of this destination is spent")
	// ErrTooLate: the wait before the next attempt would pass the deadline or the total budget. Error.RetryAt
	// says when the attempt would have been made.
	ErrTooLate = errors.New("redo: not retried: the wait would pass the deadline")
	// ErrAttempts: the policy's attempts are used up.
	ErrAttempts = errors.New("redo: all attempts are used up")
	// ErrAttemptTimeout: an attempt took longer than RetryPolicy.AttemptTimeout, or than what was left of
	// RetryPolicy.MaxElapsed.
	ErrAttemptTimeout error = timeoutError{}
	// ErrBreakerOpen: the circuit breaker of this destination is open.
	ErrBreakerOpen = errors.New("redo: circuit breaker is open")
	// ErrLimited: the client's own rate limit left no room before the deadline.
	ErrLimited = errors.New("redo: client-side rate limit")
)

// An Error is what every failed call returns: what failed, what was tried, and what is known of the effect.
//
// It matches, with errors.Is, its code and the code's family (taxonomy.RateLimited, taxonomy.Validation),
// the reason for which it was not retried, and the cause of each attempt. It never contains a body, a header
// or a query string, save through Response.
type Error struct {
	// Code names the failure; never empty.
	Code taxonomy.Code
	// StatusCode is the last answer's status, zero when the last attempt got none.
	StatusCode int
	// Operation is the operation's name, empty when it has none.
	Operation string
	// Key is the Idempotency-Key that the attempts carried, empty when they carried none.
	Key string
	// Attempts are the attempts of this call, oldest first; empty when nothing was sent.
	Attempts []Attempt
	// Effect is what is known of the operation's effect, over all attempts of this and earlier calls.
	Effect Effect
	// RetryAt is the earliest instant at which another attempt makes sense. Zero: none is known.
	RetryAt time.Time
	// Response is the last answer with the head of its body readable; nil when there was none. Its body needs
	// no Close.
	Response *http.Response
	// Err is the cause: the reason why the call ended, joined with the last attempt's transport error. It may
	// be nil when the answer says it all.
	Err error

	said    bool // the server stated the code
	sameKey bool // another call of the same operation is bound to send the same key
	retry   bool // another call may bring another answer
}

// Error returns one line: method-free, without the query, and without secrets.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("redo: ")
	if e.Operation != "" {
		b.WriteString("operation ")
		b.WriteString(strconv.Quote(e.Operation))
		b.WriteString(": ")
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
	b.WriteString(", effect ")
	b.WriteString(e.Effect.String())
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(strings.ReplaceAll(e.Err.Error(), "\n", "; "))
	}
	return b.String()
}

// Unwrap returns the code, the cause, and every attempt's cause.
func (e *Error) Unwrap() []error {
	errs := make([]error, 0, 2+len(e.Attempts))
	errs = append(errs, e.Code)
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	for _, a := range e.Attempts {
		if a.Err != nil {
			errs = append(errs, a.Err)
		}
	}
	return errs
}

// Said reports whether the server stated the code, rather than the client having inferred it from a status
// or from a transport error.
func (e *Error) Said() bool { return e.said }

// withoutURL takes the URL out of the error of one that does not parse: it may hold a password and a query.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("the URL does not parse: %w", u.Err)
	}
	return err
}

// An Attempt is one request that was made for an operation.
type Attempt struct {
	// Number counts from 1 within one call.
	Number int
	// Status is the answer's status, zero when there was none.
	Status int
	// Code is what the attempt was classified as, empty for a success.
	Code taxonomy.Code
	// Err is the transport error, nil when there was an answer.
	Err error
	// Wait is how long the client waited after this attempt before it made the next, zero for the last.
	Wait time.Duration
	// Elapsed is how long the attempt took, up to its verdict.
	Elapsed time.Duration
	// WireSends is how many times the request's head was written to a connection: 0 when it never was, 2 or
	// more when net/http resent it itself on a fresh connection, or a redirect was followed. A custom transport
	// that does not support net/http/httptrace is counted as one send.
	WireSends int
}

// CodeOf returns the code of a failed call, or of a bare taxonomy.Code in err's tree; empty when there is
// none, and for nil.
func CodeOf(err error) taxonomy.Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	code, _ := errors.AsType[taxonomy.Code](err)
	return code
}

// SafeToRetry reports whether the same call may be made again, now or later, without the risk of a second
// effect and with a chance of another answer: same operation, same key. It is false for terminal failures,
// which another try does not mend, and for transient ones whose effect is unknown when the next call would
// be bound to send a new key: no store, no [WithKey] and no [DerivedKeys].
func SafeToRetry(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.retry && (e.sameKey || e.Effect == NotApplied)
}
