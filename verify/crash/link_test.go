package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A link loses some requests and some responses. When it rests, it loses none.
func TestLinkIsLossyUntilItRests(t *testing.T) {
	var received atomic.Int64
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		received.Add(1)
		_, _ = io.WriteString(w, strings.Repeat("x", 500))
	}))
	defer service.Close()
	k, err := newLink(1, 1)
	require.NoError(t, err)
	defer k.close()
	k.open(func() []string { return []string{service.Listener.Addr().String()} })
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	send := func() bool {
		resp, err := client.Post(k.URL(), "text/plain", strings.NewReader(strings.Repeat("y", 500)))
		if err != nil {
			return false
		}
		_, err = io.ReadAll(resp.Body)
		return err == nil && resp.Body.Close() == nil
	}
	succeeded := int64(0)
	for range 100 {
		if send() {
			succeeded++
		}
	}
	require.Less(t, succeeded, received.Load(), "responses are lost")
	require.Less(t, received.Load(), int64(100), "requests are lost")
	require.Positive(t, succeeded)
	require.Positive(t, k.cuts.Load())
	k.rest()
	for range 100 {
		require.True(t, send())
	}
}

// A link without a process closes its connections.
func TestLinkWithoutAProcess(t *testing.T) {
	k, err := newLink(1, 1)
	require.NoError(t, err)
	defer k.close()
	k.open(func() []string { return nil })
	_, err = http.Get(k.URL())
	require.Error(t, err)
}

// A link that refuses connections has the same address afterwards.
func TestLinkRefuses(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer service.Close()
	k, err := newLink(1, 1)
	require.NoError(t, err)
	defer k.close()
	k.open(func() []string { return []string{service.Listener.Addr().String()} })
	k.rest()
	url := k.URL()
	require.NoError(t, k.refuse(0))
	resp, err := http.Get(url)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
}
