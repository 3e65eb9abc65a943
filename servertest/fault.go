package servertest

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

// A Fault is one step of a script: what becomes of one request. It is a value: steps may share it. The zero Fault
// is invalid.
//
// "Before the effect" means that the service never sees the request. "After the effect" means that the whole
// service ran, middleware and handler, and that its record was completed; only the answer is lost or replaced on
// its way. A request that meets a fault is processed to its end even when its client has gone: that is what makes
// its outcome unknown to the client.
type Fault struct {
	name   string
	play   func(*exchange)
	fields []Header // added to the answer that the fault sends
	bad    error    // why the arguments are refused; New reports it

	unread     bool // the request's body stays unread
	needsStore bool // it acts through the store
	seesStore  bool // it watches the store where there is one
}

// String returns the fault as it was written: "Status(503)".
func (f Fault) String() string {
	if f.play == nil {
		return "Fault{}"
	}
	return f.name
}

// With returns the fault with header fields added to the answer that it sends, in place of fields of the same name.
// A fault that sends no answer ignores them.
func (f Fault) With(fields ...Header) Fault {
	f.fields = append(append([]Header(nil), f.fields...), fields...)
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

// OK serves the request as if there were no script. At a script's end it asserts that the request comes.
func OK() Fault { return newFault((*exchange).pass, "OK()") }

// Status answers with the status, as a gateway does, before the effect.
func Status(code int) Fault {
	return newFault(func(x *exchange) {
		x.send(newTextAnswer(code, "text/plain; charset=utf-8", http.StatusText(code)))
	}, "Status(%d)", code).checkStatus(code)
}

// StatusAfterEffect answers with the status, as a gateway does, after the effect: the service's own answer is lost.
func StatusAfterEffect(code int) Fault {
	return newFault(func(x *exchange) {
		x.process()
		x.send(newTextAnswer(code, "text/plain; charset=utf-8", http.StatusText(code)))
	}, "StatusAfterEffect(%d)", code).checkStatus(code)
}

// HTMLError answers with a page of HTML that says it is JSON, before the effect, as misconfigured proxies and captive
// portals do.
func HTMLError(status int) Fault {
	return newFault(func(x *exchange) {
		title := http.StatusText(status)
		x.send(newTextAnswer(status, "application/json",
			fmt.Sprintf("<!DOCTYPE html><html><head><title>%d %[2]s</title></head><body><h1>%[2]s</h1></body></html>", status, title)))
	}, "HTMLError(%d)", status).checkStatus(status)
}

// Redirect answers with the status and the Location, before the effect. [NewInMemory]'s client reaches the same
// server under every host, so that a redirect to another origin can be followed too.
func Redirect(status int, location string) Fault {
	f := newFault(func(x *exchange) {
		a := newTextAnswer(status, "text/plain; charset=utf-8", http.StatusText(status))
		a.header.Set("Location", location)
		x.send(a)
	}, "Redirect(%d, %q)", status, location)
	return f.refuse(status < 300 || status > 399, "the status is %d, a redirect's is in [300, 399]", status).
		refuse(strings.ContainsAny(location, "\r\n"), "the location contains a line break")
}

// InFlight answers, before the effect, what a server answers while the first request with the key is still running:
// 409 and CONFLICT.idempotency.in_flight as a problem document. Retry-After is retryAfter in whole seconds, rounded
// up; zero sends none. For a first request that really is still running use [DelayInHandler]: the service then gives
// this answer by itself to whoever comes meanwhile.
func InFlight(retryAfter time.Duration) Fault {
	f := newFault(func(x *exchange) {
		x.send(newProblem(http.StatusConflict, taxonomy.InFlight, "the first request with this key is still running"))
	}, "InFlight(%v)", retryAfter).checkDuration(retryAfter)
	if retryAfter > 0 {
		f = f.With(RetryAfterSeconds(int64((retryAfter-1)/time.Second) + 1))
	}
	return f
}

// RateLimited answers 429 with the given header fields, before the effect. Without a field there is no hint of when to
// come back:
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

// A Header is one header field of an answer, for [Fault.With] and [RateLimited].
type Header struct {
	written string // as it was written, for messages
	name    string
	value   func(now time.Time) string
}

// Field is any header field. The value goes out as it is.
func Field(name, value string) Header {
	return Header{
		written: fmt.Sprintf("Field(%q, %q)", name, value),
		name:    name,
		value:   func(time.Time) string { return value },
	}
}

// RetryAfterSeconds is Retry-After as a number of seconds, its usual form (RFC 9110, 10.2.3).
func RetryAfterSeconds(n int64) Header {
	h := Field(wire.HeaderRetryAfter, fmt.Sprint(n))
	h.written = fmt.Sprintf("RetryAfterSeconds(%d)", n)
	return h
}

// RetryAfterDate is Retry-After as the HTTP date that lies d after the server's clock at the answer. The date has
// whole seconds; what is left over is cut off.
func RetryAfterDate(d time.Duration) Header {
	return Header{
		written: fmt.Sprintf("RetryAfterDate(%v)", d),
		name:    wire.HeaderRetryAfter,
		value:   func(now time.Time) string { return now.Add(d).UTC().Format(http.TimeFormat) },
	}
}

// RetryAfterRaw is Retry-After with any text: garbage, a negative number, one that overflows.
func RetryAfterRaw(value string) Header {
	h := Field(wire.HeaderRetryAfter, value)
	h.written = fmt.Sprintf("RetryAfterRaw(%q)", value)
	return h
}
