package redo_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/stretchr/testify/require"
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

// What a call takes beside net/http's own is what was measured when this was written: a change that raises it has
// to say so here.
func TestAllocationsOfACall(t *testing.T) {
	memory := inMemory{header: http.Header{"Content-Type": {"application/json"}}, body: []byte(`{"id":"rf_1"}`)}
	client := connect(t, memory)
	peer := retryablehttp.NewClient()
	peer.HTTPClient, peer.Logger = &http.Client{Transport: memory}, nil
	peers := map[string]float64{
		"net/http":                          allocations(t, (&http.Client{Transport: memory}).Do),
		"go-retryablehttp's StandardClient": allocations(t, peer.StandardClient().Do),
	}
	for _, c := range []struct {
		name string
		do   func(*http.Request) (*http.Response, error)
		own  float64 // beside net/http's
	}{
		{"Do", client.Do, 5},
		{"Transport", under(client).Do, 11},
		{"Transport without an http.Client above", client.Transport().RoundTrip, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := allocations(t, c.do)
			if raceEnabled {
				return // the calls ran, which is all that can be said
			}
			require.LessOrEqual(t, got, peers["net/http"]+c.own)
			require.LessOrEqual(t, got, peers["go-retryablehttp's StandardClient"], "with a key, and no more than without one")
		})
	}
}
