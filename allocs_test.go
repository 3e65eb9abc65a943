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

// inMemory answers every request at once, with as little as a transport can get away with.
type inMemory struct {
	header http.Header
	body   []byte
}

func (m inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
	}
	return &http.Response{
		StatusCode: http.StatusCreated, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: m.header,
		Body: io.NopCloser(bytes.NewReader(m.body)), ContentLength: int64(len(m.body)), Request: r,
	}, nil
}

// allocations counts what one 256-byte POST through do takes, the making of the request included.
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
	memory := inMemory{header: http.Header{"Content-Type": {"application/json"}}, body: []byte(`{"id":"rf_1"}`)}
	client, optedIn := connect(t, memory), connect(t, memory, redo.WithProfile(redo.RedoProfile()))
	peer := retryablehttp.NewClient()
	peer.HTTPClient, peer.Logger = &http.Client{Transport: memory}, nil
	standard := peer.StandardClient()
	// What a caller of the same promise writes: a key, a deadline for the attempt, and a body that can be sent again.
	same := allocations(t, func(req *http.Request) (*http.Response, error) {
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
	for _, c := range []struct {
		name string
		do   func(*http.Request) (*http.Response, error)
	}{
		{"Do", client.Do},
		{"Transport", under(optedIn).Do},
		{"Transport without an http.Client above", optedIn.Transport().RoundTrip},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := allocations(t, c.do)
			if racetest.Enabled {
				return // the calls ran, which is all that can be said
			}
			t.Logf("%v allocations, the peer %v", got, same)
			require.LessOrEqual(t, got, same)
		})
	}
}
