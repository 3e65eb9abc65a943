package exchange

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// respond returns a transport with one response.
func respond(status int, header http.Header, body string) roundTrip {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: status, Header: header, Request: r, ContentLength: -1,
			Body: io.NopCloser(strings.NewReader(body)),
		}, nil
	}
}

// start makes an exchange and its request, with a body of 1000.
func start(t *testing.T, method string, rt http.RoundTripper, limit time.Duration) (*Exchange, *http.Request) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "https://bank.test/refunds", strings.NewReader("1000"))
	require.NoError(t, err)
	body := BodyOf(req)
	connections := new(Connections)
	x := &Exchange{
		Transport: rt, Connections: connections, Body: &body, Keyed: true, Lost: func(*http.Request) bool {
			return false
		},
	}
	out := req.WithContext(x.Begin(connections.Watch(req.Context(), false), limit))
	out.Header = http.Header{"Accept": {"*/*"}, "Idempotency-Key": {"k1"}, "Cookie": {"c"}}
	require.NoError(t, body.Attach(out))
	return x, out
}

func TestOnlyTheFinalResponseIsReturned(t *testing.T) {
	x, r := start(t, "POST", respond(201, nil, "rf_1"), time.Minute)
	resp, err := x.Send(r)
	require.NoError(t, err)
	require.Same(t, r, resp.Request)
	got, err := x.Receive(resp, Reading{Whole: 10})
	require.NoError(t, err)
	require.Equal(t, Received{Head: []byte("rf_1")}, got)
	require.True(t, x.Sent(nil))
}

func TestATransportThatBreaksItsRules(t *testing.T) {
	x, r := start(t, "POST", roundTrip(func(*http.Request) (*http.Response, error) { return nil, nil }), 0)
	_, err := x.Send(r)
	require.ErrorIs(t, err, ErrNoResponse)

	x, r = start(t, "POST", roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 201}, nil
	}), 0)
	resp, err := x.Send(r)
	require.NoError(t, err)
	require.Same(t, r, resp.Request, "a response knows its request")
	require.NotNil(t, resp.Body)

	other := &http.Request{}
	x, r = start(t, "POST", roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 201, Request: other}, nil
	}), 0)
	x.Lost = func(r *http.Request) bool { return r == other }
	resp, err = x.Send(r)
	require.NoError(t, err)
	require.Same(t, r, resp.Request)
	x.Lost = func(*http.Request) bool { return false }
	resp, err = x.Send(r)
	require.NoError(t, err)
	require.Same(t, other, resp.Request, "another request that is not lost stays")
}

// An error is explained by the exchange's own clock, and only by that one.
func TestTheClockEndsAnExchange(t *testing.T) {
	hang := roundTrip(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		x, r := start(t, "POST", hang, time.Second)
		resp, err := x.Send(r)
		require.Equal(t, ErrTimeout, x.Fail(resp, err))
		timeout, ok := errors.AsType[interface {
			error
			Timeout() bool
			Temporary() bool
		}](ErrTimeout)
		require.True(t, ok && timeout.Timeout() && timeout.Temporary(), "as those of net/http")
		require.Equal(t, time.Second, time.Since(begin))
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		x, r := start(t, "POST", hang, time.Minute)
		r = r.WithContext(x.Begin(ctx, time.Minute))
		resp, err := x.Send(r)
		require.Equal(t, context.DeadlineExceeded, x.Fail(resp, err), "the caller's deadline is the caller's")
	})
}

func TestAnExchangeThatFailsReleasesItsContext(t *testing.T) {
	lost := errors.New("lost")
	x, r := start(t, "POST", roundTrip(func(*http.Request) (*http.Response, error) { return nil, lost }), time.Minute)
	resp, err := x.Send(r)
	require.NoError(t, r.Context().Err())
	require.Equal(t, lost, x.Fail(resp, err))
	require.ErrorIs(t, r.Context().Err(), context.Canceled)
}

func TestAnExchangeWhoseContextHasEndedSendsNothing(t *testing.T) {
	gaveUp := errors.New("gave up")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gaveUp)
	x, r := start(t, "POST", respond(201, nil, ""), 0)
	x.Begin(ctx, 0)
	spy := &closeSpy{Reader: r.Body}
	r.Body = spy
	_, err := x.Send(r)
	require.Equal(t, gaveUp, err)
	require.Equal(t, 1, spy.closed)
	require.False(t, x.Sent(err))
}

func TestWhetherARequestWasSent(t *testing.T) {
	asked := func(r *http.Request) { httptrace.ContextClientTrace(r.Context()).GetConn("bank.test:443") }
	got := func(r *http.Request) { httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{}) }
	other := errors.New("lost")
	for _, c := range []struct {
		name   string
		traced bool
		trace  []func(*http.Request)
		err    error
		sent   bool
		sends  int
	}{
		{"net/http got no connection", true, []func(*http.Request){asked}, other, false, 0},
		{"net/http got one", true, []func(*http.Request){asked, got}, other, true, 1},
		{"net/http resent it", true, []func(*http.Request){asked, got, asked, got}, other, true, 2},
		{"another transport knows nothing", false, nil, other, true, 0},
		{"another transport got a connection", false, []func(*http.Request){got}, other, true, 1},
		{"no connection was made", false, nil, &net.OpError{Op: "dial", Err: other}, false, 0},
		{"the proxy was not reached", false, nil, &net.OpError{Op: "proxyconnect", Err: other}, false, 0},
		{"a SOCKS proxy refused", false, nil, &net.OpError{Op: "socks connect", Err: other}, false, 0},
		{"a connection broke", false, nil, &net.OpError{Op: "read", Err: other}, true, 0},
		{"the host is unknown", false, nil, &net.DNSError{}, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := BodyOf(&http.Request{})
			connections := new(Connections) // with those of an earlier exchange of the call
			connections.asked.Store(1)
			connections.got.Store(1)
			x := &Exchange{Connections: connections, Body: &body,
				Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
					for _, f := range c.trace {
						if httptrace.ContextClientTrace(r.Context()).GetConn != nil || !c.traced {
							f(r)
						}
					}
					return nil, c.err
				})}
			r := (&http.Request{URL: new(url.URL)}).WithContext(x.Begin(connections.Watch(t.Context(), c.traced), 0))
			require.Zero(t, x.Sends())
			_, err := x.Send(r)
			require.Equal(t, c.err, err)
			require.Equal(t, c.sent, x.Sent(err))
			require.Equal(t, c.sends, x.Sends())
			require.Equal(t, c.sends > 1, x.Resent())
		})
	}
}

func TestRedirects(t *testing.T) {
	type want struct {
		sent   []string // method and URL of each request
		header http.Header
		code   taxonomy.Code
	}
	for _, c := range []struct {
		name     string
		method   string
		status   int
		location string
		outer    bool
		keyless  bool
		want     want
	}{
		{
			"a repeated request keeps its header on the same origin", "POST", 307, "/v2", false, false,
			want{[]string{"POST https://bank.test/refunds", "POST https://bank.test/v2"},
				http.Header{"Accept": {"*/*"}, "Idempotency-Key": {"k1"}, "Cookie": {"c"}}, ""},
		},
		{
			"a safe request keeps only headers that are not private on another origin", "GET", 302,
			"https://shop.test/", false, false,
			want{
				[]string{"GET https://bank.test/refunds", "GET https://shop.test/"}, http.Header{"Accept": {"*/*"}},
				"",
			},
		},
		{
			"303 of a safe request is a GET", "QUERY", 303, "/v2", false, false,
			want{[]string{"QUERY https://bank.test/refunds", "GET https://bank.test/v2"},
				http.Header{"Accept": {"*/*"}, "Idempotency-Key": {"k1"}, "Cookie": {"c"}}, ""},
		},
		{
			"an unsafe request is never repeated at another origin", "POST", 308, "https://shop.test/", false, false,
			want{[]string{"POST https://bank.test/refunds"}, nil, taxonomy.RedirectNotFollowed},
		},
		{
			"nor under an outer client", "POST", 308, "http://bank.test/", true, false,
			want{[]string{"POST https://bank.test/refunds"}, nil, taxonomy.RedirectNotFollowed},
		},
		{
			"an outer client decides about a request without a key", "POST", 308, "http://bank.test/", true, true,
			want{[]string{"POST https://bank.test/refunds"}, nil, ""},
		},
		{
			"and about a safe request", "GET", 302, "/v2", true, false,
			want{[]string{"GET https://bank.test/refunds"}, nil, ""},
		},
		{
			"301 of an unsafe request is returned", "POST", 301, "/v2", false, false,
			want{[]string{"POST https://bank.test/refunds"}, nil, ""},
		},
		{"so is 304", "GET", 304, "/v2", false, false, want{[]string{"GET https://bank.test/refunds"}, nil, ""}},
		{
			"so is one without a target", "GET", 302, "", false, false,
			want{[]string{"GET https://bank.test/refunds"}, nil, ""},
		},
		{
			"another scheme is an error", "GET", 302, "ftp://bank.test/", false, false,
			want{[]string{"GET https://bank.test/refunds"}, nil, taxonomy.BadURL},
		},
		{
			"so is no URL", "POST", 307, "http://%zz", false, false,
			want{[]string{"POST https://bank.test/refunds"}, nil, taxonomy.BadURL},
		},
		{
			"which an outer client reports itself", "POST", 307, "http://%zz", true, false,
			want{[]string{"POST https://bank.test/refunds"}, nil, ""},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var sent []string
			var last *http.Request
			x, r := start(t, c.method, roundTrip(func(r *http.Request) (*http.Response, error) {
				sent, last = append(sent, r.Method+" "+r.URL.String()), r
				if len(sent) > 1 {
					return respond(200, nil, "")(r)
				}
				return respond(c.status, http.Header{"Location": {c.location}}, "")(r)
			}), 0)
			x.Outer, x.Keyed = c.outer, !c.keyless
			_, err := x.Send(r)
			require.Equal(t, c.want.sent, sent)
			if c.want.header != nil {
				require.Equal(t, c.want.header, last.Header)
			}
			if c.want.code == "" {
				require.NoError(t, err)
				return
			}
			refused, ok := errors.AsType[*Refused](err)
			require.True(t, ok)
			require.Equal(t, []any{c.want.code, taxonomy.NotApplied}, []any{refused.Code, refused.Effect})
		})
	}
	t.Run("squid may redirect in place of a response that it withholds", func(t *testing.T) {
		x, r := start(t, "POST", respond(307, http.Header{
			"Location": {"http://portal.test/"}, "X-Squid-Error": {"403 Access Denied"},
		}, ""), 0)
		_, err := x.Send(r)
		refused, ok := errors.AsType[*Refused](err)
		require.True(t, ok)
		require.Equal(t, taxonomy.RedirectNotFollowed, refused.Code)
		require.Equal(t, taxonomy.EffectUnknown, refused.Effect)
	})
	t.Run("a loop ends after ten", func(t *testing.T) {
		n := 0
		x, r := start(t, "GET", roundTrip(func(r *http.Request) (*http.Response, error) {
			n++
			return respond(302, http.Header{"Location": {"/"}}, "")(r)
		}), 0)
		_, err := x.Send(r)
		refused, ok := errors.AsType[*Refused](err)
		require.True(t, ok)
		require.Equal(t, taxonomy.TooManyRedirects, refused.Code)
		require.Equal(t, maxRedirects+1, n)
	})
	t.Run("a body that a 303 left out is not sent again", func(t *testing.T) {
		var sent []string
		x, r := start(t, wire.MethodQuery, roundTrip(func(r *http.Request) (*http.Response, error) {
			body := ""
			if r.Body != nil {
				b, err := io.ReadAll(r.Body)
				require.NoError(t, err)
				body = string(b)
			}
			sent = append(sent, fmt.Sprintf("%s %s %d %s", r.Method, r.URL.Path, r.ContentLength, body))
			return respond([]int{307, 303, 307, 200}[len(sent)-1], http.Header{"Location": {"/next"}}, "")(r)
		}), 0)
		_, err := x.Send(r)
		require.NoError(t, err)
		require.Equal(t, []string{"QUERY /refunds 4 1000", "QUERY /next 4 1000", "GET /next 0 ", "GET /next 0 "}, sent)
	})
	t.Run("a redirect is not a resent request", func(t *testing.T) {
		for connections, resent := range map[int]bool{1: false, 2: true} {
			x, r := start(t, "GET", roundTrip(func(r *http.Request) (*http.Response, error) {
				httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{})
				if r.URL.Path != "/v2" {
					return respond(302, http.Header{"Location": {"/v2"}}, "")(r)
				}
				for range connections - 1 {
					httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{})
				}
				return respond(200, nil, "")(r)
			}), 0)
			_, err := x.Send(r)
			require.NoError(t, err)
			require.Equal(t, 1+connections, x.Sends())
			require.Equal(t, resent, x.Resent())
		}
	})
	t.Run("a header of the credentials function stays at its origin", func(t *testing.T) {
		var last http.Header
		x, r := start(t, "GET", roundTrip(func(r *http.Request) (*http.Response, error) {
			if last = r.Header; r.URL.Host == "bank.test" {
				return respond(302, http.Header{"Location": {"https://shop.test/"}}, "")(r)
			}
			return respond(200, nil, "")(r)
		}), 0)
		x.Private = map[string]bool{"Accept": true}
		_, err := x.Send(r)
		require.NoError(t, err)
		require.Empty(t, last)
	})
}
