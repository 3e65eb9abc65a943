package redo_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
)

// forward starts a reverse proxy over the client's transport. It returns the proxy's URL. outgoing may change each
// request. Nil changes none.
func forward(t *testing.T, c *redo.Client, srv *servertest.Server, outgoing func(*http.Request) *http.Request) string {
	t.Helper()
	to, err := url.Parse(srv.URL)
	require.NoError(t, err)
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Transport: c.Transport(),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			if outgoing != nil {
				r.Out = outgoing(r.Out)
			}
		},
	})
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// through posts a payment under the key over the proxy.
func through(t *testing.T, proxy, key string) (status int, body string) {
	t.Helper()
	req := post(t, t.Context(), proxy+"/refunds?currency=eur", payment)
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	rt := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(rt.CloseIdleConnections)
	resp, err := rt.RoundTrip(req)
	require.NoError(t, err)
	return resp.StatusCode, drain(t, resp)
}

// realSocket returns a client on a real socket. Its attempts follow each other without a wait.
func realSocket(t *testing.T, opts ...redo.Option) *redo.Client {
	t.Helper()
	rt := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(rt.CloseIdleConnections)
	return connect(t, rt, append([]redo.Option{redo.WithRetry(redo.RetryPolicy{Jitter: redo.NoDelay})}, opts...)...)
}

func TestReverseProxyRetriesUnderTheKeyOfItsClient(t *testing.T) {
	faults := []servertest.Fault{servertest.ResetAfterEffect(), servertest.Status(503), servertest.OK()}
	srv := servertest.New(t, servertest.Script("k1", faults...))
	proxy := forward(t, realSocket(t, redo.WithProfile(redo.RedoProfile())), srv, nil)
	status, body := through(t, proxy, "k1")
	require.Equal(t, 201, status)
	require.JSONEq(t, `{"id":"rf_1"}`, body)
	srv.Ledger().AssertEffects(t, "k1", 1)
	require.Len(t, srv.Requests(), 3)
	for _, r := range srv.Requests() {
		require.Equal(t, "k1", r.Key)
		require.Equal(t, payment, string(r.Body), "a server's request has no GetBody: the body was buffered")
		require.Equal(t, "/refunds", r.Path)
		require.Equal(t, "eur", r.Query.Get("currency"))
	}
}

// The twin: without WithProfile no option has declared that the server honours keys.
func TestReverseProxySendsOnceByDefault(t *testing.T) {
	for _, key := range []string{"k1", ""} {
		t.Run("key "+key, func(t *testing.T) {
			srv := servertest.New(t, servertest.Script(key, servertest.Status(503)), servertest.Bare())
			status, body := through(t, forward(t, realSocket(t), srv, nil), key)
			require.Equal(t, 503, status)
			require.Equal(t, "Service Unavailable", body)
			require.Equal(t, []string{key}, keys(srv))
		})
	}
}

func TestReverseProxyRunsStoredOperations(t *testing.T) {
	srv := servertest.New(t, servertest.ScriptNext(servertest.ResetAfterEffect(), servertest.OK()))
	proxy := forward(t, realSocket(t, redo.WithStore(openStore(t))), srv, func(r *http.Request) *http.Request {
		return r.WithContext(redo.WithOperation(r.Context(), "refund:"+r.Header.Get("Idempotency-Key")))
	})
	for range 2 {
		status, body := through(t, proxy, "k1")
		require.Equal(t, 201, status)
		require.JSONEq(t, `{"id":"rf_1"}`, body)
	}
	require.Len(t, srv.Requests(), 2, "the second response comes from the store")
	require.Equal(t, 1, srv.Ledger().Total())
}
