package servertest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
)

// statusUnder sends one request with the headers and returns the status of the response.
func statusUnder(t *testing.T, srv *servertest.Server, header http.Header) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, strings.NewReader("{}"))
	require.NoError(t, err)
	req.Header = header
	resp, err := srv.Client().Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

func TestKeyHeader(t *testing.T) {
	mine := func(key string) http.Header { return http.Header{"X-Refund-Key": {key}} }
	t.Run("scripts, requests, ledger and middleware follow it", func(t *testing.T) {
		onBoth(t, func(t *testing.T, start func(testing.TB, ...servertest.Option) *servertest.Server) {
			srv := start(t, servertest.KeyHeader("x-refund-key"),
				servertest.Script("k1", servertest.StatusAfterEffect(502)))
			require.Equal(t, 201, statusUnder(t, srv, mine("k2")))
			require.Equal(t, 502, statusUnder(t, srv, mine("k1")))
			require.Equal(t, 201, statusUnder(t, srv, mine(`"k1"`)))
			srv.Ledger().AssertEffects(t, "k1", 1)
			srv.Ledger().AssertEffects(t, "k2", 1)
			requests := srv.Requests()
			require.Equal(t, "k2", requests[0].Key)
			require.Equal(t, "k1", requests[2].Key)
			require.Equal(t, 2, srv.Ledger().Requests("k1"))
		})
	})
	t.Run("the default header then is no key", func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.KeyHeader("X-Refund-Key"))
		for range 2 {
			require.Equal(t, 201, statusUnder(t, srv, http.Header{"Idempotency-Key": {"k1"}}))
		}
		require.Equal(t, 2, srv.Ledger().Requests(""))
		require.Equal(t, 2, srv.Ledger().Total())
	})
	t.Run("without it another header is no key", func(t *testing.T) {
		srv := servertest.NewInMemory(t)
		require.Equal(t, 201, statusUnder(t, srv, mine("k1")))
		require.Equal(t, 1, srv.Ledger().Requests(""))
	})
	t.Run("a guard sets its own", func(t *testing.T) {
		guard := func(st store.Store) (func(http.Handler) http.Handler, error) {
			return server.New(st, server.SharedKeys(), server.Header("X-Refund-Key"))
		}
		srv := servertest.NewInMemory(t, servertest.KeyHeader("X-Refund-Key"), servertest.Guard(guard))
		require.Equal(t, 201, statusUnder(t, srv, mine("k1")))
		require.Equal(t, 201, statusUnder(t, srv, mine("k1")))
		srv.Ledger().AssertEffects(t, "k1", 1)
	})
	for name, says := range map[string]string{
		"":              `servertest: KeyHeader: "" is not a header name`,
		"Authorization": "servertest: KeyHeader: the header Authorization carries credentials",
	} {
		t.Run("refused: "+name, func(t *testing.T) {
			fake := newFakeTB(t)
			servertest.NewInMemory(fake, servertest.KeyHeader(name))
			require.Equal(t, says, fake.fatal)
		})
	}
}
