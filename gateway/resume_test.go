package gateway_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/gateway"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store/memstore"
)

// A phone sends a request, its gateway loses the upstream, and the phone never comes back.
func TestRunContinuesARequestWithoutItsPhone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := servertest.NewInMemory(t)
		st := memstore.New()
		u, err := url.Parse(up.URL)
		require.NoError(t, err)
		serve := func(g *gateway.Gateway) int {
			req := httptest.NewRequest(http.MethodPost, "/v1/refunds", strings.NewReader("{}"))
			req.Header = http.Header{"Idempotency-Key": {"k1"}, "X-User": {"ann"}, "X-App-Version": {"7"}}
			w := httptest.NewRecorder()
			g.ServeHTTP(w, req)
			return w.Code
		}
		start := func(rt http.RoundTripper) *gateway.Gateway {
			g, err := gateway.New(u, st, gateway.Principal(user), gateway.Secret(secret),
				gateway.Client(redo.WithTransport(rt)))
			require.NoError(t, err)
			return g
		}
		dead := start(roundTrip(func(*http.Request) (*http.Response, error) {
			return nil, errors.New("connection reset by peer")
		}))
		require.Equal(t, http.StatusBadGateway, serve(dead))

		alive := start(up.Transport())
		go alive.Run(t.Context())
		time.Sleep(time.Hour)
		require.Equal(t, 1, up.Ledger().Total())
		require.Equal(t, http.StatusCreated, serve(alive))
		require.Equal(t, 1, up.Ledger().Total())
		require.Equal(t, []string{"7"}, up.Requests()[0].Header["X-App-Version"])
		require.NoError(t, alive.Shutdown(t.Context()))
	})
}
