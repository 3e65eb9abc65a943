package console_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/console"
)

func TestWithoutAuthenticateOnlyThisMachineIsServed(t *testing.T) {
	r := newRig(t)
	from := func(host, peer string, header ...string) int {
		return r.do(http.MethodGet, "./", nil, func(req *http.Request) {
			req.Host, req.RemoteAddr = host, peer
			for _, name := range header {
				req.Header.Set(name, "203.0.113.9")
			}
		}).Code
	}
	for _, host := range []string{
		"127.0.0.1", "127.0.0.1:8090", "localhost:8090", "LOCALHOST", "[::1]:8090", "[::1]", "127.9.9.9",
	} {
		require.Equal(t, http.StatusOK, from(host, "127.0.0.1:5555"), host)
	}
	require.Equal(t, http.StatusOK, from("localhost", "[::1]:5555"))
	require.Equal(t, http.StatusOK, from("localhost", "[::ffff:127.0.0.1]:5555"))

	// A name that an attacker has rebound to a loopback address stays in Host.
	for _, host := range []string{
		"evil.example", "evil.example:8090", "127.0.0.1.evil.example", "localhost.evil.example", "", "10.0.0.1",
		"0.0.0.0",
	} {
		require.Equal(t, http.StatusForbidden, from(host, "127.0.0.1:5555"), host)
	}
	for _, peer := range []string{"203.0.113.9:5555", "[2001:db8::1]:5555", "10.0.0.1:5555", "", "@"} {
		require.Equal(t, http.StatusForbidden, from("localhost", peer), peer)
	}
	for _, name := range []string{
		"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Real-IP",
		"True-Client-IP", "CF-Connecting-IP",
	} {
		require.Equal(t, http.StatusForbidden, from("localhost", "127.0.0.1:5555", name), name)
	}
}

func TestAuthenticateDecidesAndNamesTheAuthor(t *testing.T) {
	r := newRig(t, console.Authenticate(func(req *http.Request) (string, bool) {
		name, password, _ := req.BasicAuth()
		return name, password == "right"
	}))
	as := func(name, password string) func(*http.Request) {
		return func(req *http.Request) {
			req.Host, req.RemoteAddr = "console.example", "203.0.113.9:5555"
			req.Header.Set("Origin", "https://console.example")
			req.SetBasicAuth(name, password)
		}
	}
	require.Equal(t, http.StatusUnauthorized, r.do(http.MethodGet, "./", nil).Code, "this machine is no exception")
	require.Equal(t, http.StatusUnauthorized, r.do(http.MethodGet, "./", nil, as("bob", "wrong")).Code)
	require.Equal(t, http.StatusUnauthorized, r.do(http.MethodGet, "./", nil, as("", "right")).Code,
		"an act needs an author")
	require.Equal(t, http.StatusUnauthorized, r.do(http.MethodGet, "style.css", nil, as("bob", "wrong")).Code)
	w := r.do(http.MethodGet, "./", nil, as("bob", "right"))
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), "Signed in as bob")

	op, err := r.client.Find(t.Context(), "refund:unknown")
	require.NoError(t, err)
	finding := url.Values{"name": {op.Name}, "key": {op.Key}, "effect": {"applied"}, "evidence": {"rf_1"}}
	require.Equal(t, http.StatusUnauthorized, r.do(http.MethodPost, "settle", finding, as("bob", "wrong")).Code)
	require.Empty(t, r.acts)
	require.Equal(t, http.StatusSeeOther, r.do(http.MethodPost, "settle", finding, as("bob", "right")).Code)
	require.Equal(t, "bob", r.act().Author)
	op, err = r.client.Find(t.Context(), "refund:unknown")
	require.NoError(t, err)
	require.Equal(t, "bob", op.Finding.By)
}

func TestFormsOfOtherOriginsAreRefused(t *testing.T) {
	none := url.Values{"name": {"none"}, "queue": {"none"}, "rate": {"1"}}
	for _, action := range []string{"resume", "settle", "forget", "redrive", "selection", "enable"} {
		r := newRig(t)
		post := func(change func(http.Header)) int {
			return r.do(http.MethodPost, action, none, func(req *http.Request) { change(req.Header) }).Code
		}
		for name, change := range map[string]func(http.Header){
			"cross-site":   func(h http.Header) { h.Set("Sec-Fetch-Site", "cross-site") },
			"another port": func(h http.Header) { h.Set("Sec-Fetch-Site", "same-site") },
			"a browser without metadata": func(h http.Header) {
				h.Del("Sec-Fetch-Site")
				h.Set("Origin", "https://evil.example")
			},
			"a sandboxed frame": func(h http.Header) { h.Del("Sec-Fetch-Site"); h.Set("Origin", "null") },
		} {
			require.Equal(t, http.StatusForbidden, post(change), "%s: %s", action, name)
		}
		require.Empty(t, r.acts)
		// The console's own form passes: it is about something that does not exist.
		for name, change := range map[string]func(http.Header){
			"same origin":                func(http.Header) {},
			"a browser without metadata": func(h http.Header) { h.Del("Sec-Fetch-Site") },
		} {
			require.Equal(t, http.StatusNotFound, post(change), "%s: %s", action, name)
		}
	}
}

func TestEveryResponseHasTheSecurityHeaders(t *testing.T) {
	r := newRig(t)
	for _, w := range []*httptest.ResponseRecorder{
		r.do(http.MethodGet, "./", nil), r.do(http.MethodGet, "style.css", nil), r.do(http.MethodGet, "none", nil),
		r.do(http.MethodGet, "./", nil, func(req *http.Request) { req.Host = "evil.example" }),
		r.do(http.MethodPost, "forget", nil, func(req *http.Request) {
			req.Header.Set("Sec-Fetch-Site", "cross-site")
		}),
	} {
		h := w.Header()
		require.True(t, strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'none'; style-src 'self'; "))
		require.Contains(t, h.Get("Content-Security-Policy"), "frame-ancestors 'none'")
		require.Equal(t, "DENY", h.Get("X-Frame-Options"))
		require.Equal(t, "no-store", h.Get("Cache-Control"))
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"))
	}
}

func TestPagesNeedNothingFromElsewhere(t *testing.T) {
	r := newRig(t)
	for _, page := range []string{
		"./", "operations", "operation?name=refund:down", "events?queue=outbox", "letters", "find",
	} {
		text := r.get(page)
		for _, tag := range []string{
			"<script", "<img", "<iframe", "style=", ` src="`, `href="http`, `href="//`, `action="/`, `href="/`,
		} {
			require.NotContains(t, text, tag, page)
		}
	}
	require.Contains(t, r.do(http.MethodGet, "style.css", nil).Header().Get("Content-Type"), "text/css")
}

func TestFormThatIsTooLongChangesNothing(t *testing.T) {
	r := newRig(t)
	fields := r.forms("operation?name=refund:unknown", "settle")[0]
	fields.Set("effect", "applied")
	fields.Set("evidence", strings.Repeat("x", 70<<10))
	require.GreaterOrEqual(t, r.do(http.MethodPost, "settle", fields).Code, 400)
	require.Empty(t, r.acts)
}

// The console works below any path, because its links and redirects are relative.
func TestConsoleWorksBelowAPrefix(t *testing.T) {
	r := newRig(t)
	srv := httptest.NewServer(http.StripPrefix("/ops/console", r.console))
	t.Cleanup(srv.Close)
	fields := r.forms("operation?name=refund:unknown", "settle")[0]
	fields.Set("effect", "not applied")
	fields.Set("evidence", "no such refund")
	resp, err := srv.Client().PostForm(srv.URL+"/ops/console/settle", fields)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, "/ops/console/operation", resp.Request.URL.Path)
}

func TestAFormThatCannotBeReadIsRefused(t *testing.T) {
	r := newRig(t)
	of := func(n int) int {
		return r.do(http.MethodPost, "settle", url.Values{"name": {"none"}, "evidence": {strings.Repeat("x", n)}}).Code
	}
	require.Equal(t, http.StatusRequestEntityTooLarge, of(64<<10))
	require.Equal(t, http.StatusNotFound, of(60<<10), "there is no such operation")
	require.Equal(t, http.StatusBadRequest, r.do(http.MethodGet, "./?q=%zz", nil).Code)
}
