package wire

import (
	"net/http"
	"net/textproto"
	"strings"
)

// neverReplayed are the headers that belong to one answer on one connection, or to one caller at one moment.
// A replay's own are made anew by whoever made the first ones.
var neverReplayed = func() map[string]bool {
	names := map[string]bool{}
	for _, name := range []string{
		// Hop by hop: RFC 9110 section 7.6.1, and what RFC 2616 listed before it. Proxy-* is a prefix, below.
		"Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings",
		// Said by the server that writes the answer, of that answer.
		"Date", "Content-Length", "Age", "Via", "Alt-Svc", "Server-Timing", "Cache-Status", "X-Cache", "X-Runtime",
		"X-Response-Time",
		// Credentials and challenges.
		"Set-Cookie", "Set-Cookie2", "Www-Authenticate", "Authentication-Info",
		// When to come back, counted from an answer that is long past. A stored answer is final, and a client
		// told to wait would come back for the same one.
		"Retry-After", "Retry-After-Ms", "X-Retry-After",
		// Names of one request, one attempt, one trace.
		"Request-Id", "X-Request-Id", "X-Amzn-Requestid", "X-Amz-Request-Id", "X-Amz-Id-2", "X-Ms-Request-Id",
		"X-Correlation-Id", "Correlation-Id", "X-Trace-Id", "Traceparent", "Tracestate", "Traceresponse", "Baggage",
		"B3", "X-Amzn-Trace-Id", "X-Cloud-Trace-Context", "Uber-Trace-Id", "Sentry-Trace", "Cf-Ray",
		// The browser's origin may be another one in the retry. Access-Control-* is a prefix, below.
		"Timing-Allow-Origin",
		// Marks of an earlier replay.
		HeaderStatus, HeaderReplayed, "Idempotency-Replayed", "X-Idempotent-Replayed", "Idempotency-Replay",
		"X-Idempotency-Status", "X-Idempotency-Cached", "X-Cache-Idempotency",
	} {
		names[name] = true
	}
	return names
}()

var neverReplayedPrefixes = [...]string{
	"Proxy-", "Access-Control-", "Ratelimit", "X-Ratelimit", "X-Rate-Limit", "Rate-Limit", "X-B3-", "X-Datadog-", http.TrailerPrefix,
}

// Replayable reports whether a header of this name may be stored and replayed. It does not know what a
// Connection header names: see [EndToEnd].
func Replayable(name string) bool {
	name = textproto.CanonicalMIMEHeaderKey(name)
	if neverReplayed[name] {
		return false
	}
	for _, prefix := range neverReplayedPrefixes {
		if strings.HasPrefix(name, prefix) {
			return false
		}
	}
	return true
}

// EndToEnd returns a copy of h without what is never stored or replayed: hop-by-hop headers and those that
// Connection names, Date, Content-Length, cookies and challenges, rate limits and Retry-After, the names of
// requests and traces, CORS, and the marks of an earlier replay. The result is never nil and shares nothing
// with h.
func EndToEnd(h http.Header) http.Header {
	kept := make(http.Header, len(h))
	for name, values := range h {
		if Replayable(name) && !ConnectionNames(h, name) {
			kept[name] = append([]string(nil), values...)
		}
	}
	return kept
}

// ConnectionNames reports whether h's Connection header names the header of that name, which makes it hop by
// hop (RFC 9110 section 7.6.1).
func ConnectionNames(h http.Header, name string) bool {
	for _, line := range h["Connection"] {
		for option := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(trimOWS(option), name) {
				return true
			}
		}
	}
	return false
}
