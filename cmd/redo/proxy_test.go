package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// A connection that dies when it is used again would make net/http's client send a request with a key a second time.
// The retries of a proxy would be taken for those of the client that is tried. (A body that can't be read again would
// prevent it.)
func TestProxySendsEachRequestOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	var arrived atomic.Int64
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Idempotency-Key") != "k2" {
			return
		}
		arrived.Add(1)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	}))
	t.Cleanup(upstream.Close)
	ctx, cancel := context.WithCancel(t.Context())
	listening, up := context.WithCancel(t.Context())
	errs := &announced{cancel: up}
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, []string{"proxy", upstream.URL, "--listen", "127.0.0.1:0", "--url-file", "url"},
			terminal{in: http.NoBody, out: &bytes.Buffer{}, err: errs})
		up()
	}()
	<-listening.Done()
	var url []byte
	require.Eventually(t, func() bool {
		url, _ = os.ReadFile("url")
		return len(url) > 0
	}, timeLimit, tick)
	for _, c := range []struct {
		key    string
		status int
	}{{"k1", http.StatusOK}, {"k2", http.StatusBadGateway}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, strings.TrimSpace(string(url))+"/x",
			http.NoBody)
		require.NoError(t, err)
		req.Header.Set("Idempotency-Key", c.key)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, c.status, resp.StatusCode)
	}
	require.EqualValues(t, 1, arrived.Load())
	http.DefaultClient.CloseIdleConnections()
	cancel()
	require.Zero(t, <-done, errs.String())
}
