package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/gateway"
	"github.com/redo-go/redo/store/memstore"
)

func TestOnlyAKeyInFlightIsAccepted(t *testing.T) {
	var nested *httptest.ResponseRecorder
	var g *gateway.Gateway
	g = local(t, memstore.New(), func(r *http.Request) (*http.Response, error) {
		nested = post(g, "{}") // the phone repeats it
		return respond(http.StatusCreated)(r)
	}, gateway.StatusPath("/operations"), gateway.Wait(0))
	require.Equal(t, http.StatusCreated, post(g, "{}").Code)
	require.Equal(t, http.StatusAccepted, nested.Code)
	require.Equal(t, "application/json", nested.Header().Get("Content-Type"))
	require.Empty(t, nested.Header().Get("Error-Code"))

	w := post(g, "other")
	require.Equal(t, http.StatusConflict, w.Code)
	require.Equal(t, "CONFLICT.idempotency.payload_mismatch", w.Header().Get("Error-Code"))
	require.Empty(t, w.Header().Get("Location"))
}

func TestKeyInTheHeaderCountsBeforeTheQuery(t *testing.T) {
	g := local(t, memstore.New(), respond(http.StatusCreated), gateway.StatusPath("/operations"))
	require.Equal(t, http.StatusCreated, post(g, "{}").Code)
	for _, c := range []struct {
		query, key string
		status     int
	}{
		{"?key=k1", "", 200},
		{"?key=k2", "", 404},
		{"?key=k2", "k1", 200},
		{"?key=k1", "k2", 404},
		{"", "k1", 200},
		{"", "", 400},
	} {
		r := httptest.NewRequest(http.MethodGet, "/operations"+c.query, nil)
		r.Header.Set("X-User", "ann")
		if c.key != "" {
			r.Header.Set("Idempotency-Key", c.key)
		}
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		require.Equal(t, c.status, w.Code, c)
	}
}
