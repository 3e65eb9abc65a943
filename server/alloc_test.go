package server_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/memstore"
)

// A sink is the cheapest http.ResponseWriter there is.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(int)             {}
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }

// The middleware's cost above the bare handler is bounded.
func TestAllocations(t *testing.T) {
	answer := []byte(`{"id":"rf_123"}`)
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(answer)
	})
	body := strings.NewReader(`{"amount":1000,"charge":"ch_9ab"}`)
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/refunds", body)
	req.Pattern = "POST /refunds"
	lines := []string{""}
	req.Header["Idempotency-Key"] = lines
	w := &sink{header: http.Header{}}
	serve := func(h http.Handler) {
		body.Reset(`{"amount":1000,"charge":"ch_9ab"}`)
		clear(w.header)
		h.ServeHTTP(w, req)
	}
	bare := testing.AllocsPerRun(500, func() { serve(handler) })

	const runs = 500
	keys := make([]string, runs+1) // AllocsPerRun warms up once
	for i := range keys {
		keys[i] = "key-" + strconv.Itoa(i)
	}
	guarded := server.Middleware(memstore.New(), server.Required(), server.SharedKeys())(handler)
	next := 0
	first := testing.AllocsPerRun(runs, func() {
		lines[0] = keys[next]
		next++
		serve(guarded)
	})
	require.Equal(t, "stored", w.header.Get("Idempotency-Status"))
	again := testing.AllocsPerRun(runs, func() { serve(guarded) })
	require.Equal(t, "replayed", w.header.Get("Idempotency-Status"))

	t.Logf("bare handler %v, first run +%v, replay +%v", bare, first-bare, again-bare)
	require.LessOrEqual(t, first-bare, 22.0, "first run, and one less without the race detector")
	require.LessOrEqual(t, again-bare, 12.0, "replay")
}
