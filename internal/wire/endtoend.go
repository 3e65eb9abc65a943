package wire

import (
	"net/http"
	"net/textproto"
	"strings"
)

// neverReplayed lists the headers that belong to one response on one connection, or to one caller at one moment. The
// server, proxy or middleware that set them on the first response sets them again on a replay.
var neverReplayed = func() map[string]bool {
	names := map[string]bool{}
	for _, name := range []string{
		// Hop by hop: RFC 9110 section 7.6.1, and the list of RFC 2616 before it. Proxy-* is a prefix, below.
		"Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings",
		// About one response, set by the server or the cache that sends it.
		"Date", "Content-Length", "Age", "Via", "Alt-Svc", "Server-Timing", "Cache-Status", "X-Cache", "X-Runtime",
		"X-Response-Time",
		// Credentials and challenges.
		"Set-Cookie", "Set-Cookie2", "Www-Authenticate", "Authentication-Info",
		// The time to wait, counted from the first response. A stored response is final: a client that waits and
		// retries gets the same one.
		"Retry-After", "Retry-After-Ms", "X-Retry-After",
		// Identifiers of one request, one attempt or one trace.
		"Request-Id", "X-Request-Id", "X-Amzn-Requestid", "X-Amz-Request-Id", "X-Amz-Id-2", "X-Ms-Request-Id",
		"X-Correlation-Id", "Correlation-Id", "X-Trace-Id", "Traceparent", "Tracestate", "Traceresponse", "Baggage",
		"B3", "X-Amzn-Trace-Id", "X-Cloud-Trace-Context", "Uber-Trace-Id", "Sentry-Trace", "Cf-Ray",
		// The browser's origin may be a different one in the retry. Access-Control-* is a prefix, below.
		"Timing-Allow-Origin",
		// Markers of an earlier replay.
		HeaderStatus, HeaderReplayed, "Idempotency-Replayed", "X-Idempotent-Replayed", "Idempotency-Replay",
		"X-Idempotency-Status", "X-Idempotency-Cached", "X-Cache-Idempotency", "Idempotency-Hit",
	} {
		names[name] = true
	}
	return names
}()

// neverReplayedPrefixes lists the starts of further names that are never replayed.
var neverReplayedPrefixes = [...]string{
	"Proxy-", "Access-Control-", "Ratelimit", "X-Ratelimit", "X-Rate-Limit", "Rate-Limit", "X-B3-", "X-Datadog-",
	http.TrailerPrefix,
}

// Replayable reports whether a header of this name, in any case, may be stored and replayed. It does not see the
// Connection header of the response, which can name further headers: see [ConnectionNames].
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

// EndToEnd returns a copy of h that holds only the headers to store and replay. It leaves out:
//
//   - hop-by-hop headers, and those that Connection names
//   - Date, Content-Length and other headers about one response
//   - cookies and challenges
//   - rate limits and Retry-After
//   - identifiers of requests and traces
//   - CORS headers
//   - markers of an earlier replay
//
// The result is never nil, even for a nil h, and shares no memory with h.
func EndToEnd(h http.Header) http.Header {
	kept := make(http.Header, len(h))
	for name, values := range h {
		if Replayable(name) && !ConnectionNames(h, name) {
			kept[name] = append([]string(nil), values...)
		}
	}
	return kept
}

// ConnectionNames reports whether the Connection header of h lists name, in any case. A listed header is hop-by-hop
// (RFC 9110 section 7.6.1).
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
