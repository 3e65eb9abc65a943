package wire

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEndToEnd(t *testing.T) {
	t.Run("never replayed", func(t *testing.T) {
		for _, name := range []string{
			"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "TE", "Trailer", "Transfer-Encoding",
			"Upgrade",
			"Date", "Content-Length", "Age", "Via", "Alt-Svc", "Server-Timing", "Set-Cookie", "WWW-Authenticate",
			"RateLimit", "RateLimit-Policy", "RateLimit-Reset", "X-RateLimit-Remaining", "X-Rate-Limit-Limit",
			"Retry-After",
			"X-Request-Id", "Request-Id", "X-Correlation-Id", "traceparent", "tracestate", "b3", "X-B3-TraceId",
			"Access-Control-Allow-Origin", "Access-Control-Expose-Headers",
			"Idempotency-Status", "Idempotent-Replayed", "Idempotency-Replayed", "X-Idempotent-Replayed",
			"Idempotency-Replay",
			"X-Idempotency-Status", "X-Idempotency-Cached", "X-Cache-Idempotency", "Idempotency-Hit", "Trailer:X-Sum",
		} {
			require.Empty(t, EndToEnd(http.Header{name: {"v"}}), "as written: %s", name)
			require.Empty(t, EndToEnd(http.Header{http.CanonicalHeaderKey(name): {"v"}}), "in canonical form: %s", name)
		}
	})
	t.Run("a header that Connection names goes, in any case", func(t *testing.T) {
		h := http.Header{"Connection": {"close, x-hop", "X-Other"}, "X-Hop": {"1"}, "X-Other": {"2"}, "X-End": {"3"}}
		require.Equal(t, http.Header{"X-End": {"3"}}, EndToEnd(h))
	})
	t.Run("everything else stays, in order, and is a copy", func(t *testing.T) {
		h := http.Header{
			"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}, "Etag": {`"1"`}, "Location": {"/r/1"},
			"Vary": {"Accept", "Origin"}, "Link": {"a", "b"}, "Cache-Control": {"no-store"}, "X-Own": {"1"},
			"X-Off": nil,
		}
		kept := EndToEnd(h)
		require.Equal(t, h, kept)
		kept["Vary"][0] = "changed"
		kept["New"] = []string{"1"}
		require.Equal(t, "Accept", h["Vary"][0])
		require.NotContains(t, h, "New")
	})
	t.Run("no header gives an empty one", func(t *testing.T) {
		require.Equal(t, http.Header{}, EndToEnd(nil))
	})
}
