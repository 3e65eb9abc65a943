package redo_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/internal/racetest"
)

// inMemory responds to every request immediately, with as little work as a transport can do.
type inMemory struct {
	header http.Header
	body   []byte
	flaky  bool // every other response is a 503, from the first on
	failed bool // the last one was
}

func newInMemory(flaky bool) *inMemory {
	return &inMemory{
		header: http.Header{"Content-Type": {"application/json"}}, body: []byte(`{"id":"rf_1"}`), flaky: flaky,
	}
}

func (m *inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
	}
	status := http.StatusCreated
	if m.failed = m.flaky && !m.failed; m.failed {
		status = http.StatusServiceUnavailable
	}
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: m.header,
		Body: io.NopCloser(bytes.NewReader(m.body)), ContentLength: int64(len(m.body)), Request: r,
	}, nil
}

// allocations counts those of one 256-byte POST through do, the making of the request included.
func allocations(t *testing.T, do func(*http.Request) (*http.Response, error)) float64 {
	t.Helper()
	payload := bytes.Repeat([]byte("x"), 256)
	header := http.Header{"Content-Type": {"application/json"}}
	return testing.AllocsPerRun(200, func() {
		req, err := http.NewRequest(http.MethodPost, "http://api.test/refunds", bytes.NewReader(payload))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header = header
		resp, err := do(req)
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	})
}

// A call allocates no more than go-retryablehttp's StandardClient does for a caller with the same promise.
func TestAllocationsOfACall(t *testing.T) {
	peer := peerAllocations(t, false)
	for _, c := range redoClients(t, false) {
		t.Run(c.name, func(t *testing.T) {
			got := allocations(t, c.do)
			if racetest.Enabled {
				return // the calls ran, and no figure is checked
			}
			t.Logf("%v allocations, the peer %v", got, peer)
			require.LessOrEqual(t, got, peer)
			require.LessOrEqual(t, got, c.once)
		})
	}
}

// A retry costs more than the peer's, since the error's body is read for its code.
func TestAllocationsOfARetry(t *testing.T) {
	peer := peerAllocations(t, true)
	for _, c := range redoClients(t, true) {
		t.Run(c.name, func(t *testing.T) {
			got := allocations(t, c.do)
			if racetest.Enabled {
				return
			}
			t.Logf("%v allocations, the peer %v", got, peer)
			require.LessOrEqual(t, got, c.retried)
		})
	}
}

// A counted is one way to make a call, with the most allocations of a call without a retry, and of one with one retry.
type counted struct {
	name          string
	do            func(*http.Request) (*http.Response, error)
	once, retried float64
}

func redoClients(t *testing.T, flaky bool) []counted {
	retry := redo.WithRetry(redo.RetryPolicy{Jitter: redo.NoDelay})
	client, optedIn := connect(t, newInMemory(flaky), retry),
		connect(t, newInMemory(flaky), retry, redo.WithProfile(redo.RedoProfile()))
	return []counted{
		{"Do", client.Do, 31, 71},
		{"Transport", under(optedIn).Do, 30, 66},
		{"Transport without an http.Client above", optedIn.Transport().RoundTrip, 24, 60},
	}
}

// peerAllocations counts those of a caller with the same promise: a key, a deadline for the attempt, and a body
// that can be sent again.
func peerAllocations(t *testing.T, flaky bool) float64 {
	peer := retryablehttp.NewClient()
	peer.HTTPClient = &http.Client{Transport: newInMemory(flaky)}
	peer.Logger, peer.RetryWaitMin, peer.RetryWaitMax = nil, 0, 0
	standard := peer.StandardClient()
	return allocations(t, func(req *http.Request) (*http.Response, error) {
		key, err := uuid.NewV7()
		if err != nil {
			return nil, err
		}
		req.Header = req.Header.Clone()
		req.Header.Set("Idempotency-Key", key.String())
		ctx, cancel := context.WithTimeout(req.Context(), 10*time.Second)
		defer cancel()
		return standard.Do(req.WithContext(ctx))
	})
}
