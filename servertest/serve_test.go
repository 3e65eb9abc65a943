package servertest_test

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return l
}

func statusOf(t *testing.T, srv *servertest.Server, key string) (int, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/refunds", strings.NewReader("{}"))
	require.NoError(t, err)
	req.Header.Set("Idempotency-Key", key)
	resp, err := srv.Client().Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

func TestServerOutsideOfATestSaysWhatWasNotPlayed(t *testing.T) {
	srv, err := servertest.Serve(listen(t), nil, servertest.Script("k1", servertest.Status(503), servertest.OK()))
	require.NoError(t, err)
	t.Cleanup(srv.Close)
	status, err := statusOf(t, srv, "k1")
	require.NoError(t, err)
	require.Equal(t, 503, status)
	require.Equal(t, []string{`key "k1", step 2, OK(): no request came for it`}, srv.Unplayed())
	status, err = statusOf(t, srv, "k1")
	require.NoError(t, err)
	require.Equal(t, 201, status)
	require.Empty(t, srv.Unplayed())
	srv.Close()
	_, err = statusOf(t, srv, "k1")
	require.Error(t, err)
}

func TestServerOutsideOfATestRefusesWrongOptions(t *testing.T) {
	l := listen(t)
	_, err := servertest.Serve(l, nil, servertest.Script("k1", servertest.Status(42)))
	require.EqualError(t, err, "servertest: Status(42): the status is 42, it must be in [200, 999]")
	_, err = l.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestServerOutsideOfATestTellsOfPanics(t *testing.T) {
	var mu sync.Mutex
	var told []any
	srv, err := servertest.Serve(listen(t), func(_ string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, args[0])
	}, servertest.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("a bug") })))
	require.NoError(t, err)
	_, err = statusOf(t, srv, "k1")
	require.Error(t, err)
	srv.Close()
	require.Contains(t, told, any("a bug"))
}

func TestGuardStandsInTheMiddlewaresPlaceAndSeesTheFaults(t *testing.T) {
	guard := func(st store.Store) (func(http.Handler) http.Handler, error) {
		return server.New(st, server.SharedKeys(), server.IETFStatuses())
	}
	srv := servertest.New(t, servertest.Guard(guard),
		servertest.Script("k1", servertest.StoreFailsAtReserve(), servertest.OK()))
	status, err := statusOf(t, srv, "k1")
	require.NoError(t, err)
	require.Equal(t, 503, status)
	for range 2 {
		status, err = statusOf(t, srv, "k1")
		require.NoError(t, err)
		require.Equal(t, 201, status)
	}
	srv.Ledger().AssertEffects(t, "k1", 1)

	bad := errors.New("no")
	for want, opts := range map[string][]servertest.Option{
		"servertest: Guard: no": {
			servertest.Guard(func(store.Store) (func(http.Handler) http.Handler, error) { return nil, bad }),
		},
		"servertest: Guard takes the place of the middleware that WithMiddleware has options for": {
			servertest.Guard(guard), servertest.WithMiddleware(server.Required()),
		},
		"servertest: a Bare server has no store and no middleware": {
			servertest.Guard(guard), servertest.Bare(),
		},
	} {
		_, err := servertest.Serve(listen(t), nil, opts...)
		require.EqualError(t, err, want)
	}
}

// A client that speaks HTTP/2 without TLS begins with a preface, which looks like a request to HTTP/1.1.
func TestPrefaceOfHTTP2IsNoRequest(t *testing.T) {
	onBoth(t, func(t *testing.T, start func(testing.TB, ...servertest.Option) *servertest.Server) {
		srv := start(t)
		transport := srv.Transport().Clone()
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetUnencryptedHTTP2(true)
		_, err := post(t, &http.Client{Transport: transport}, srv.URL, "k1")
		require.Error(t, err)
		require.Empty(t, srv.Requests())
		require.Zero(t, srv.Ledger().Total())
	})
}

func TestConnectionsUnderTLSAreReset(t *testing.T) {
	certified := httptest.NewTLSServer(http.NotFoundHandler()) // has a certificate, and a client that accepts it
	t.Cleanup(certified.Close)
	for _, fault := range []servertest.Fault{servertest.ResetBeforeRead(), servertest.ResetAfterEffect()} {
		l, err := tls.Listen("tcp", "127.0.0.1:0", certified.TLS.Clone())
		require.NoError(t, err)
		srv, err := servertest.Serve(l, nil, servertest.Script("k1", fault, servertest.OK()))
		require.NoError(t, err)
		t.Cleanup(srv.Close)
		url := "https://" + l.Addr().String()
		_, err = post(t, certified.Client(), url, "k1")
		require.Error(t, err)
		resp, err := post(t, certified.Client(), url, "k1")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusCreated, resp.StatusCode)
		require.Empty(t, srv.Unplayed())
		require.Equal(t, 1, srv.Ledger().Effects("k1"))
	}
}
