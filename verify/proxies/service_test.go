package proxies

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store/memstore"
)

// A service is two servers that share their records.
type service struct{ first, second *servertest.Server }

// newService starts a service. The faults meet the next requests of the first server.
func newService(t *testing.T, faults []servertest.Fault, opts ...servertest.Option) service {
	t.Helper()
	opts = append(opts, servertest.WithStore(memstore.New()))
	second := servertest.New(t, opts...)
	if len(faults) > 0 {
		opts = append(opts, servertest.ScriptNext(faults...))
	}
	return service{servertest.New(t, opts...), second}
}

// behind starts a proxy in front of the service and returns its URL.
func (s service) behind(t *testing.T, p product) string {
	t.Helper()
	return p.start(t, hostOf(s.first), hostOf(s.second))
}

// effects returns how many effects the servers have made.
func (s service) effects() int { return s.first.Ledger().Total() + s.second.Ledger().Total() }

// newClient returns redo's client, which is closed when the test ends.
func newClient(t *testing.T, opts ...redo.Option) *redo.Client {
	t.Helper()
	client, err := redo.New(opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

// order makes one call with a new client and returns its error.
func order(t *testing.T, url string, opts ...redo.Option) *redo.Error {
	t.Helper()
	return send(t, newClient(t, opts...), url, `{"amount":1000}`)
}

func send(t *testing.T, client *redo.Client, url, body string) *redo.Error {
	t.Helper()
	resp, err := client.Do(newRequest(t, url, body))
	if err == nil {
		require.NoError(t, resp.Body.Close())
		return nil
	}
	var e *redo.Error
	require.ErrorAs(t, err, &e)
	return e
}

// post sends one request with a key, and no other.
func post(t *testing.T, url, key string) (*http.Response, error) {
	t.Helper()
	req := newRequest(t, url, `{"amount":1}`)
	req.Header.Set("Idempotency-Key", key)
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		t.Cleanup(func() { _ = resp.Body.Close() })
	}
	return resp, err
}

func newRequest(t *testing.T, url, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/orders", strings.NewReader(body))
	require.NoError(t, err)
	return req
}

func hostOf(s *servertest.Server) string { return strings.TrimPrefix(s.URL, "http://") }
