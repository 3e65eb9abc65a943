package redo

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/limit"
)

var bank = limit.Destination{Scheme: "https", Host: "bank.test"}

// scripted is a transport that gives each attempt the next of its statuses, and the last one from then on.
type scripted struct {
	statuses []int
	hint     string      // the Retry-After of failures
	header   http.Header // of every response
	sent     atomic.Int32
}

// The result of an attempt without a response.
const (
	broken = -1 // the connection breaks
	hang   = -2 // nothing, until the attempt ends
)

func (s *scripted) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	n := int(s.sent.Add(1))
	status := s.statuses[min(n, len(s.statuses))-1]
	switch status {
	case broken:
		return nil, io.ErrUnexpectedEOF
	case hang:
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	h := s.header.Clone()
	if h == nil {
		h = http.Header{}
	}
	if s.hint != "" && status >= 400 {
		h.Set("Retry-After", s.hint)
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader("")), Request: r}, nil
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// open makes a client.
func open(t *testing.T, options ...Option) *Client {
	t.Helper()
	client, err := New(options...)
	require.NoError(t, err)
	return client
}

// send makes one POST through c.
func send(ctx context.Context, t *testing.T, c *Client) error {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, bank.String()+"/refunds", strings.NewReader("1000"))
	require.NoError(t, err)
	resp, err := c.Do(req)
	if err == nil {
		require.NoError(t, resp.Body.Close())
	}
	return err
}

// build makes a request without a body. keys are the lines of the request's own key header.
func build(t *testing.T, ctx context.Context, method string, keys ...string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, bank.String(), nil)
	require.NoError(t, err)
	if keys != nil {
		req.Header["Idempotency-Key"] = keys
	}
	return req
}

// limitAfter is a limiter that lets a number of attempts through.
type limitAfter struct {
	allowed int
	asked   *int
}

func (l limitAfter) Wait(context.Context) error {
	if *l.asked++; *l.asked > l.allowed {
		return errors.New("no room before the deadline")
	}
	return nil
}

// refuseAfter is a breaker that lets a number of attempts through.
type refuseAfter struct {
	allowed int
	err     error
	asked   *int
}

func (b refuseAfter) Allow(string) (func(limit.Health), error) {
	if *b.asked++; *b.asked > b.allowed {
		return nil, b.err
	}
	return func(limit.Health) {}, nil
}

// A recordingBreaker lets every attempt through and keeps the reports about them.
type recordingBreaker struct {
	destination string
	health      []limit.Health
}

func (b *recordingBreaker) Allow(destination string) (func(limit.Health), error) {
	b.destination = destination
	return func(h limit.Health) { b.health = append(b.health, h) }, nil
}

// A recordingLimiter lets every attempt through and keeps the reports about them.
type recordingLimiter []bool

func (l *recordingLimiter) Wait(context.Context) error { return nil }
func (l *recordingLimiter) Report(limited bool)        { *l = append(*l, limited) }
