package exchange_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/exchange"
	"github.com/redo-go/redo/taxonomy"
)

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*http.Request)
		want   taxonomy.Code
	}{
		{"a request", func(*http.Request) {}, ""},
		{"the empty method is GET", func(r *http.Request) { r.Method = "" }, ""},
		{"a tab in a value", func(r *http.Request) { r.Header.Set("X-A", "a\tb") }, ""},
		{"no URL", func(r *http.Request) { r.URL = nil }, taxonomy.InvalidRequest},
		{"another scheme", func(r *http.Request) { r.URL.Scheme = "ftp" }, taxonomy.BadURL},
		{"a query that was never escaped", func(r *http.Request) { r.URL.RawQuery = "q=a b|c" }, ""},
		{"a line break in the query", func(r *http.Request) { r.URL.RawQuery = "a=b\nc" }, taxonomy.BadURL},
		{"a line break in an opaque URL", func(r *http.Request) { r.URL.Opaque = "/a\nb" }, taxonomy.BadURL},
		{"a length without a body", func(r *http.Request) { r.ContentLength = 5 }, taxonomy.InvalidRequest},
		{"a length with an empty body", func(r *http.Request) { r.Body, r.ContentLength = http.NoBody, 5 }, ""},
		{"a trailer", func(r *http.Request) { r.Trailer = http.Header{"X-A": {"1"}} }, ""},
		{
			"a trailer that frames", func(r *http.Request) { r.Trailer = http.Header{"Content-Length": {"1"}} },
			taxonomy.InvalidRequest,
		},
		{
			"a trailer that frames, in small letters",
			func(r *http.Request) { r.Trailer = http.Header{"content-length": {"1"}} },
			taxonomy.InvalidRequest,
		},
		{"no host", func(r *http.Request) { r.URL.Host = "" }, taxonomy.BadURL},
		{"the highest port", func(r *http.Request) { r.URL.Host = "bank.test:65535" }, ""},
		{"a port that is too high", func(r *http.Request) { r.URL.Host = "bank.test:65536" }, taxonomy.BadURL},
		{"the port 0", func(r *http.Request) { r.URL.Host = "bank.test:0" }, taxonomy.BadURL},
		{"a method of two words", func(r *http.Request) { r.Method = "GE T" }, taxonomy.InvalidRequest},
		{"a name of two words", func(r *http.Request) { r.Header["X A"] = nil }, taxonomy.InvalidRequest},
		{
			"a line break in a value", func(r *http.Request) { r.Header["X-A"] = []string{"a\nb"} },
			taxonomy.InvalidRequest,
		},
		{
			"a trailer's value too", func(r *http.Request) { r.Trailer = http.Header{"X-A": {"\x00"}} },
			taxonomy.InvalidRequest,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			req, err := http.NewRequest(http.MethodPost, "https://bank.test/", nil)
			require.NoError(t, err)
			c.change(req)
			refused := exchange.Check(req)
			if c.want == "" {
				require.Nil(t, refused)
				return
			}
			require.Equal(t, c.want, refused.Code)
			require.Equal(t, taxonomy.NotApplied, refused.Effect)
		})
	}
	require.EqualError(t, exchange.Check(nil), "redo: the request is nil")
}
