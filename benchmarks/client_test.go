package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/benchmarks/contest"
	"github.com/redo-go/redo/benchmarks/post"
)

// A recordedRequest is the part of a request that its sender's promise covers.
type recordedRequest struct {
	keys []string
	body string
}

// A recorder records each request and passes it on to under.
type recorder struct {
	under http.RoundTripper
	seen  []recordedRequest
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	r.seen = append(r.seen, recordedRequest{req.Header.Values("Idempotency-Key"), string(body)})
	return r.under.RoundTrip(req)
}

// A slowTransport responds after an hour, or ends with the request's context.
type slowTransport struct{}

func (slowTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	select {
	case <-time.After(time.Hour):
		return post.Memory{}.RoundTrip(req)
	case <-req.Context().Done():
		return nil, errors.Join(context.Cause(req.Context()), req.Body.Close())
	}
}

func TestAClientMakesAKeyForEachCall(t *testing.T) {
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			r := &recorder{under: post.Memory{}}
			send, err := c.over(r)
			require.NoError(t, err)
			for range 2 {
				require.NoError(t, send(post.MemoryURL, []byte("payload")))
			}
			require.Len(t, r.seen, 2)
			require.Len(t, r.seen[0].keys, 1)
			require.Len(t, r.seen[1].keys, 1)
			if !c.keys {
				require.Equal(t, post.ConstantKey, r.seen[0].keys)
				require.Equal(t, post.ConstantKey, r.seen[1].keys)
				return
			}
			require.NotEqual(t, r.seen[0].keys, r.seen[1].keys)
			for _, seen := range r.seen {
				key, err := uuid.Parse(seen.keys[0])
				require.NoError(t, err)
				require.Equal(t, uuid.Version(7), key.Version())
			}
		})
	}
}

func TestAClientKeepsItsDeadline(t *testing.T) {
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				send, err := c.over(slowTransport{})
				require.NoError(t, err)
				start := time.Now()
				err = send(post.MemoryURL, []byte("payload"))
				if !c.deadline {
					require.NoError(t, err)
					require.Equal(t, time.Hour, time.Since(start))
					return
				}
				require.Error(t, err)
				require.Equal(t, post.Deadline, time.Since(start))
			})
		})
	}
}

func TestARetryRepeatsTheKeyAndTheBody(t *testing.T) {
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			r := &recorder{under: &post.Flaky{}}
			send, err := c.over(r)
			require.NoError(t, err)
			err = send(post.MemoryURL, []byte("payload"))
			if !c.retries {
				require.ErrorContains(t, err, "503")
				require.Len(t, r.seen, 1)
				return
			}
			require.NoError(t, err)
			require.Len(t, r.seen, 2)
			require.Equal(t, r.seen[0], r.seen[1])
			require.Equal(t, "payload", r.seen[0].body)
		})
	}
}

func TestOnlyRetryingClientsAreMeasuredOnARetry(t *testing.T) {
	for _, s := range []contest.Scenario{retryScenario(), retryLoopbackScenario()} {
		var names, want []string
		for _, c := range s.Contestants {
			names = append(names, c.Name)
		}
		for _, c := range clients {
			if c.retries {
				want = append(want, c.name)
			}
		}
		require.Equal(t, want, names)
		require.Contains(t, names, byDo)
		require.NotContains(t, names, byNetHTTP)
	}
}
