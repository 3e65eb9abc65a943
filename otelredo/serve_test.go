package otelredo_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// serve sends a request to a handler.
func serve(t *testing.T, h http.Handler, path, key, body string) {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path+"?token=hunter2", strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer hunter2")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	h.ServeHTTP(httptest.NewRecorder(), req)
}

// claims keeps the claim of a request.
type claims struct {
	*memstore.Store
	seen store.Claim
}

func (c *claims) Reserve(ctx context.Context, claim store.Claim) (store.Grant, error) {
	c.seen = claim
	return c.Store.Reserve(ctx, claim)
}

// claimOf returns the claim that the middleware makes for a request.
func claimOf(t *testing.T, key, body string) store.Claim {
	t.Helper()
	st := &claims{Store: memstore.New()}
	serve(t, server.Middleware(st, server.SharedKeys())(http.NotFoundHandler()), "/", key, body)
	return st.seen
}
