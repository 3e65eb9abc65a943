package redo

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/taxonomy"
)

func TestNewWithoutOptions(t *testing.T) {
	client := open(t)
	require.Nil(t, client.store)
	require.Nil(t, client.limiter)
	require.Nil(t, client.breaker)
	require.Nil(t, client.log)
	require.Equal(t, "redo", client.scope)
	require.Equal(t, 30*24*time.Hour, client.keep)
	require.Equal(t, 64<<10, client.maxStored)
	require.Equal(t, 16<<20, client.maxResponse)
	require.Equal(t, 1<<20, client.maxBuffered)
	require.Equal(t, RedoProfile().withDefaults(), client.profile)
	require.Equal(t, 100, budgetLeft(client.buckets, 1000))
	require.Equal(t, 5, client.retry.MaxAttempts)
	require.NotNil(t, client.keys)
	require.False(t, client.optedIn, "no option has declared that the servers honour keys")

	require.NotSame(t, http.DefaultTransport, client.base, "its connections are its own")
	require.Same(t, client.ownBase, client.base)
	require.Equal(t, 64, client.ownBase.MaxIdleConnsPerHost)
	require.True(t, client.traced)
}

func TestATransportOfTheCallersIsUsedAsItIs(t *testing.T) {
	own := &http.Transport{}
	client := open(t, WithTransport(own))
	require.Same(t, own, client.base)
	require.Nil(t, client.ownBase)
	require.True(t, client.traced, "net/http's own reports its connections")

	client = open(t, WithTransport(&scripted{}))
	require.False(t, client.traced, "of another it is not known")
}

// A proxy refuses a tunnel with a status. It has the same meaning as that of any other response (contract, section 2).
func TestAProxyThatRefusesTheTunnelIsNamedByItsStatus(t *testing.T) {
	for status, want := range map[int]struct {
		code     taxonomy.Code
		attempts int
	}{
		407: {taxonomy.ProxyAuth, 1}, 403: {taxonomy.Forbidden, 1},
		502: {taxonomy.Unavailable, 2}, 504: {taxonomy.Timeout, 2},
	} {
		var asked atomic.Int32
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			w.WriteHeader(status)
		}))
		t.Cleanup(proxy.Close)
		to, err := url.Parse(proxy.URL)
		require.NoError(t, err)
		client := open(t, WithRetry(RetryPolicy{MaxAttempts: 2, Jitter: NoDelay}))
		client.ownBase.Proxy = http.ProxyURL(to)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://bank.test/refunds", http.NoBody)
		require.NoError(t, err)
		resp, err := client.Do(req)
		require.Nil(t, resp)
		e, ok := errors.AsType[*Error](err)
		require.True(t, ok)
		require.Equal(t, []any{want.code, NotApplied, want.attempts}, []any{e.Code, e.Effect, len(e.Attempts)})
		require.EqualValues(t, want.attempts, asked.Load())
		require.Zero(t, e.StatusCode, "it is not the server's")
		require.ErrorContains(t, err, strconv.Itoa(status))
	}
}

// A program may have replaced http.DefaultTransport, for tracing for example.
func TestNewTakesAnyDefaultTransport(t *testing.T) {
	usual := http.DefaultTransport
	t.Cleanup(func() { http.DefaultTransport = usual })
	replaced := &scripted{statuses: []int{200}}
	http.DefaultTransport = replaced
	client := open(t)
	require.Same(t, replaced, client.base)
	require.Nil(t, client.ownBase, "it is not the client's to close")
	require.False(t, client.traced)
	require.NoError(t, send(t.Context(), t, client))
	require.EqualValues(t, 1, replaced.sent.Load())
	client.Transport().(interface{ CloseIdleConnections() }).CloseIdleConnections()
	require.NoError(t, client.Close())

	for _, none := range []http.RoundTripper{nil, (*http.Transport)(nil)} {
		http.DefaultTransport = none
		_, err := New()
		require.EqualError(t, err, "redo: New: http.DefaultTransport is nil: use WithTransport")
	}
}

func TestNewRefusesAProfileThatItsKeysDoNotFit(t *testing.T) {
	short := Profile{Name: "acme", MaxKey: 35}
	_, err := New(WithProfile(short))
	require.EqualError(t, err,
		`redo: New: profile "acme" takes keys of at most 35 characters, and a time-ordered key has 36: `+
			"make shorter ones with WithKeys")
	for name, options := range map[string][]Option{
		"keys of the caller's":     {WithProfile(short), WithKeys(func(string) (string, error) { return "k1", nil })},
		"keys from WithKey alone":  {WithProfile(short), WithKeys(nil)},
		"an API that has no keys":  {WithProfile(Profile{MaxKey: 35, NoKeys: true})},
		"a key that fits just so":  {WithProfile(Profile{MaxKey: 36})},
		"the default of 255 bytes": {WithProfile(Profile{})},
	} {
		_, err := New(options...)
		require.NoError(t, err, name)
	}
}

func TestRequestsThatCannotBeSentAreRefused(t *testing.T) {
	parse := func(s string) *url.URL {
		u, err := url.Parse(s)
		require.NoError(t, err)
		return u
	}
	request := func(method, header string, values ...string) *http.Request {
		req := &http.Request{Method: method, URL: parse("https://bank.test/"), Header: http.Header{}}
		if len(values) > 1 || values[0] != "" {
			req.Header[header] = values
		}
		return req
	}
	for _, c := range []struct {
		name string
		req  *http.Request
		code taxonomy.Code
		want string
	}{
		{"no request", nil, taxonomy.InvalidRequest, "redo: the request is nil"},
		{"no URL", &http.Request{}, taxonomy.InvalidRequest, "redo: the request's URL is nil"},
		{
			"no scheme", &http.Request{URL: parse("//bank.test/")}, taxonomy.BadURL,
			`redo: the URL's scheme is "", it must be http or https`,
		},
		{
			"another scheme", &http.Request{URL: parse("ftp://bank.test/")}, taxonomy.BadURL,
			`redo: the URL's scheme is "ftp", it must be http or https`,
		},
		{"no host", &http.Request{URL: parse("https:///refunds")}, taxonomy.BadURL, "redo: the URL has no host"},
		{
			"a method of two words", request("GE T", "", ""), taxonomy.InvalidRequest,
			`redo: the method "GE T" is not a token (RFC 9110 §9.1)`,
		},
		{
			"a method with a line break", request("GET\r\nX: y", "", ""), taxonomy.InvalidRequest,
			`redo: the method "GET\r\nX: y" is not a token (RFC 9110 §9.1)`,
		},
		{
			"a header name of two words", request("", "X Y", "v"), taxonomy.InvalidRequest,
			`redo: the header name "X Y" is not a token (RFC 9110 §5.1)`,
		},
		{
			"a header name with a line break", request("", "X\r\nY", "v"), taxonomy.InvalidRequest,
			`redo: the header name "X\r\nY" is not a token (RFC 9110 §5.1)`,
		},
		{
			"an empty header name", request("", "", "v"), taxonomy.InvalidRequest,
			`redo: the header name "" is not a token (RFC 9110 §5.1)`,
		},
		{
			"CR in a value", request("", "X-Y", "secret\rX: y"), taxonomy.InvalidRequest,
			"redo: the value of the header X-Y has a control character",
		},
		{
			"LF in a value", request("", "X-Y", "secret\nX: y"), taxonomy.InvalidRequest,
			"redo: the value of the header X-Y has a control character",
		},
		{
			"a zero byte in a later value", request("", "X-Y", "a", "b\x00"), taxonomy.InvalidRequest,
			"redo: the value of the header X-Y has a control character",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			rt := &scripted{statuses: []int{200}}
			client := open(t, WithTransport(rt))
			resp, err := client.Do(c.req)
			require.Nil(t, resp)
			e, ok := errors.AsType[*Error](err)
			require.True(t, ok)
			require.EqualError(t, e.Err, c.want)
			require.Equal(t, c.code, e.Code)
			require.Equal(t, NotApplied, e.Effect)
			require.Empty(t, e.Attempts)
			require.False(t, SafeToRetry(err))
			require.Zero(t, rt.sent.Load())
		})
	}
}

// The twin of the test above.
func TestUnusualRequestsAreSent(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"an empty method":              func(r *http.Request) { r.Method = "" },
		"a method of the caller's own": func(r *http.Request) { r.Method = "RE-FUND" },
		"a server's request":           func(r *http.Request) { r.RequestURI = "/refunds" },
		"no header map":                func(r *http.Request) { r.Header = nil },
		"a tab in a value":             func(r *http.Request) { r.Header.Set("X-Y", "a\tb") },
		"a value beyond ASCII":         func(r *http.Request) { r.Header.Set("X-Y", "Müller \xff") },
		"an empty value":               func(r *http.Request) { r.Header.Set("X-Y", "") },
		"a name in lower case":         func(r *http.Request) { r.Header["x-y"] = []string{"v"} },
	} {
		t.Run(name, func(t *testing.T) {
			rt := &scripted{statuses: []int{200}}
			req := build(t, t.Context(), "POST")
			change(req)
			uri := req.RequestURI
			resp, err := open(t, WithTransport(rt)).Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.EqualValues(t, 1, rt.sent.Load())
			require.Equal(t, uri, req.RequestURI, "the caller's request is not changed")
		})
	}
}

// net/http's transport refuses a request whose RequestURI is set.
func TestRequestURIIsIgnored(t *testing.T) {
	var got *http.Request
	client := open(t, WithTransport(roundTrip(func(r *http.Request) (*http.Response, error) {
		got = r
		return (&scripted{statuses: []int{200}}).RoundTrip(r)
	})))
	req := build(t, t.Context(), "POST")
	req.RequestURI = "/refunds"
	resp, err := client.Transport().RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Empty(t, got.RequestURI)
}

type closeSpy struct {
	*strings.Reader
	closed int
}

func (c *closeSpy) Close() error { c.closed++; return nil }

func TestTheBodyOfARefusedRequestIsClosed(t *testing.T) {
	client := open(t, WithTransport(&scripted{statuses: []int{200}}))
	for name, req := range map[string]*http.Request{
		"by its URL":  {Method: "POST", URL: &url.URL{Scheme: "ftp"}},
		"by its name": build(t, WithOperation(t.Context(), ""), "POST"),
		"by its key":  build(t, WithKey(t.Context(), ""), "POST"),
		"by a policy": build(t, WithPolicy(t.Context(), RetryPolicy{MaxAttempts: -1}), "POST"),
	} {
		t.Run(name, func(t *testing.T) {
			body := &closeSpy{Reader: strings.NewReader("1000")}
			req.Body = body
			_, err := client.Do(req)
			require.Error(t, err)
			require.Equal(t, 1, body.closed)
		})
	}
}

func TestAClosedClientRefusesCalls(t *testing.T) {
	rt := &scripted{statuses: []int{200}}
	client := open(t, WithTransport(rt))
	require.NoError(t, send(t.Context(), t, client))
	require.NoError(t, client.Close())
	require.NoError(t, client.Close(), "twice is no error")

	err := send(t.Context(), t, client)
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, err, taxonomy.ClientClosed)
	_, err = client.Transport().RoundTrip(build(t, t.Context(), "GET"))
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, client.Forget(t.Context(), "refund:1"), ErrClosed)
	for _, err := range client.Pending(t.Context()) {
		require.ErrorIs(t, err, ErrClosed)
	}
	require.EqualValues(t, 1, rt.sent.Load())
}
