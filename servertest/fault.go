package servertest

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

// Fault is one step of a script: the treatment of one request. It is a value, so steps may share it. The zero
// Fault is invalid. A step whose handler panics has not fired.
//
// "Before the effect" means that the service never sees the request. "After the effect" means that the whole
// service ran, middleware and handler, and that its record was completed. Only the response is then lost or
// replaced. The server finishes a request that meets a fault even after its client has gone. So the outcome is
// unknown to the client.
type Fault struct {
	name   string
	play   func(*exchange)
	fields []Header // added to the response that the fault sends
	bad    error    // the error in the arguments; New returns it

	unread     bool // the request's body stays unread
	needsStore bool // it acts through the store
	seesStore  bool // it watches the store if there is one
}

// String returns the fault as Go source: "Status(503)".
func (f Fault) String() string {
	if f.play == nil {
		return "Fault{}"
	}
	return f.name
}

// With returns the fault with header fields added to the response that it sends. They replace fields of the same
// name. A fault that sends no response ignores them.
func (f Fault) With(fields ...Header) Fault {
	f.fields = append(append([]Header(nil), f.fields...), fields...)
	for _, h := range fields {
		if why := h.unfit(); why != "" && f.bad == nil {
			f.bad = fmt.Errorf("servertest: %s: %s", h.written, why)
		}
	}
	return f
}

func newFault(play func(*exchange), format string, args ...any) Fault {
	return Fault{name: fmt.Sprintf(format, args...), play: play}
}

// refuse marks the fault as invalid for the first rule that is broken.
func (f Fault) refuse(broken bool, format string, args ...any) Fault {
	if broken && f.bad == nil {
		f.bad = fmt.Errorf("servertest: %s: %s", f, fmt.Sprintf(format, args...))
	}
	return f
}

func (f Fault) checkStatus(code int) Fault {
	return f.refuse(code < 200 || code > 999, "the status is %d, it must be in [200, 999]", code)
}

func (f Fault) checkDuration(d time.Duration) Fault {
	return f.refuse(d < 0, "the duration is %v, it must not be negative", d)
}

// OK serves the request without a fault. At a script's end it asserts that the request arrives and that the handler
// returns.
func OK() Fault { return newFault((*exchange).pass, "OK()") }

// Status responds with the status before the effect, as a gateway does.
func Status(code int) Fault {
	return newFault(func(x *exchange) {
		x.send(newTextAnswer(code, "text/plain; charset=utf-8", http.StatusText(code)))
	}, "Status(%d)", code).checkStatus(code)
}

// StatusAfterEffect responds with the status after the effect, as a gateway does. The service's own response is
// lost.
func StatusAfterEffect(code int) Fault {
	return newFault(func(x *exchange) {
		x.process()
		x.send(newTextAnswer(code, "text/plain; charset=utf-8", http.StatusText(code)))
	}, "StatusAfterEffect(%d)", code).checkStatus(code)
}

// HTMLError responds before the effect with a page of HTML whose Content-Type is JSON. Misconfigured proxies and
// captive portals do this.
func HTMLError(status int) Fault {
	return newFault(func(x *exchange) {
		title := http.StatusText(status)
		x.send(newTextAnswer(status, "application/json",
			fmt.Sprintf("<!DOCTYPE html><html><head><title>%d %[2]s</title></head><body><h1>%[2]s</h1></body></html>",
				status, title)))
	}, "HTMLError(%d)", status).checkStatus(status)
}

// Redirect responds with the status and the Location, before the effect. The client of [NewInMemory] reaches the
// same server under every host. So it can also follow a redirect to another origin.
func Redirect(status int, location string) Fault {
	f := newFault(func(x *exchange) {
		a := newTextAnswer(status, "text/plain; charset=utf-8", http.StatusText(status))
		a.header.Set("Location", location)
		x.send(a)
	}, "Redirect(%d, %q)", status, location)
	return f.refuse(status < 300 || status > 399, "the status is %d, a redirect's is in [300, 399]", status).
		refuse(strings.ContainsAny(location, "\r\n"), "the location contains a line break")
}

// InFlight responds before the effect as a server does while the first request with the key is still running. The
// response is 409 with CONFLICT.idempotency.in_flight as a problem document. Retry-After is retryAfter in whole
// seconds, rounded up. Zero sends no Retry-After. For a first request that is really running, use
// [DelayInHandler]. The service then gives this response to concurrent requests with the key.
func InFlight(retryAfter time.Duration) Fault {
	f := newFault(func(x *exchange) {
		x.send(newProblem(http.StatusConflict, taxonomy.InFlight, "the first request with this key is still running"))
	}, "InFlight(%v)", retryAfter).checkDuration(retryAfter)
	if retryAfter > 0 {
		f = f.With(RetryAfterSeconds(int64((retryAfter-1)/time.Second) + 1))
	}
	return f
}

// RateLimited responds 429 with the given header fields, before the effect. Without a field, the response does not
// state when to retry:
//
//	servertest.RateLimited(servertest.RetryAfterSeconds(2))
func RateLimited(hints ...Header) Fault {
	names := make([]string, len(hints))
	for i, h := range hints {
		names[i] = h.written
	}
	return newFault(func(x *exchange) {
		x.send(newProblem(http.StatusTooManyRequests, taxonomy.RateLimited, "too many requests"))
	}, "RateLimited(%s)", strings.Join(names, ", ")).With(hints...)
}

// Header is one header field of a response, for [Fault.With] and [RateLimited].
type Header struct {
	written string // its Go source, for messages
	name    string
	value   func(now time.Time) string
}

// unfit returns the reason why net/http would not send the field as it is, or "".
func (h Header) unfit() string {
	name := http.CanonicalHeaderKey(h.name)
	switch {
	case h.value == nil:
		return "the zero Header has no name; take one of the constructors"
	case !wire.Token(h.name):
		return fmt.Sprintf("%q is no header name (RFC 9110 section 5.6.2)", h.name)
	case name == "Content-Length" || name == "Transfer-Encoding" || name == "Connection":
		return "the server sets " + name + " itself"
	case strings.ContainsAny(h.value(time.Time{}), "\r\n"):
		return "the value contains a line break"
	}
	return ""
}

// Field returns a header field. The value is sent unchanged. A name that is no header name, a header that frames the
// response (Content-Length, Transfer-Encoding or Connection) or a line break in the value ends the test.
func Field(name, value string) Header {
	return Header{
		written: fmt.Sprintf("Field(%q, %q)", name, value),
		name:    name,
		value:   func(time.Time) string { return value },
	}
}

// RetryAfterSeconds returns Retry-After as a number of seconds, its usual form (RFC 9110, 10.2.3).
func RetryAfterSeconds(n int64) Header {
	h := Field(wire.HeaderRetryAfter, fmt.Sprint(n))
	h.written = fmt.Sprintf("RetryAfterSeconds(%d)", n)
	return h
}

// RetryAfterDate returns Retry-After as an HTTP date. The date is the server's time at the response plus d, with
// fractions of a second cut off.
func RetryAfterDate(d time.Duration) Header {
	return Header{
		written: fmt.Sprintf("RetryAfterDate(%v)", d),
		name:    wire.HeaderRetryAfter,
		value:   func(now time.Time) string { return now.Add(d).UTC().Format(http.TimeFormat) },
	}
}

// RetryAfterRaw returns Retry-After with any text: garbage, a negative number, or a number that overflows.
func RetryAfterRaw(value string) Header {
	h := Field(wire.HeaderRetryAfter, value)
	h.written = fmt.Sprintf("RetryAfterRaw(%q)", value)
	return h
}
