package redo_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// rest is the wait between two attempts of the clients that connect makes.
const rest = 100 * time.Millisecond

// connect returns a client whose attempts go through rt and whose waits are exact.
func connect(t *testing.T, rt http.RoundTripper, opts ...redo.Option) *redo.Client {
	t.Helper()
	first := []redo.Option{
		redo.WithTransport(rt), redo.WithRetry(redo.RetryPolicy{BaseDelay: rest, Jitter: redo.ConstantDelay}),
	}
	c, err := redo.New(append(first, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// openStore returns a store that is closed at the test's end.
func openStore(t *testing.T) *memstore.Store {
	t.Helper()
	st := memstore.New()
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

// payment is the body that most tests send.
const payment = `{"amount":1000}`

// post returns a POST with a replayable body.
func post(t *testing.T, ctx context.Context, url, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	return req
}

// named returns a POST of the operation.
func named(t *testing.T, srv *servertest.Server, operation, body string) *http.Request {
	t.Helper()
	return post(t, redo.WithOperation(t.Context(), operation), srv.URL+"/refunds", body)
}

// keyed returns a POST under the key.
func keyed(t *testing.T, srv *servertest.Server, key string) *http.Request {
	t.Helper()
	return post(t, redo.WithKey(t.Context(), key), srv.URL+"/refunds", payment)
}

// succeed makes the call and returns its response, with the body read and closed.
func succeed(t *testing.T, c *redo.Client, req *http.Request) (*http.Response, string) {
	t.Helper()
	resp, err := c.Do(req)
	require.NoError(t, err)
	return resp, drain(t, resp)
}

// fail makes the call, which must fail, and returns its error.
func fail(t *testing.T, c *redo.Client, req *http.Request) *redo.Error {
	t.Helper()
	resp, err := c.Do(req)
	require.Nil(t, resp, "a failed Do returns no response beside its error")
	return failure(t, err)
}

func failure(t *testing.T, err error) *redo.Error {
	t.Helper()
	e, ok := errors.AsType[*redo.Error](err)
	require.True(t, ok, "want an *Error, got %T: %v", err, err)
	return e
}

// drain reads and closes a response's body.
func drain(t *testing.T, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return string(b)
}

// offsets are the instants at which the server's requests came, counted from start.
func offsets(srv *servertest.Server, start time.Time) []time.Duration {
	var at []time.Duration
	for _, r := range srv.Requests() {
		at = append(at, r.At.Sub(start))
	}
	return at
}

// keys are the keys of the server's requests.
func keys(srv *servertest.Server) []string {
	var sent []string
	for _, r := range srv.Requests() {
		sent = append(sent, r.Key)
	}
	return sent
}

// record returns the store's record of the operation.
func record(t *testing.T, st store.Store, operation string) store.Record {
	t.Helper()
	rec, err := st.Find(t.Context(), store.ID{Scope: "redo", Key: operation})
	require.NoError(t, err)
	return rec
}

// requireAbsent asserts that the store holds nothing of the operation.
func requireAbsent(t *testing.T, st store.Store, operation string) {
	t.Helper()
	_, err := st.Find(t.Context(), store.ID{Scope: "redo", Key: operation})
	require.ErrorIs(t, err, store.ErrNotFound)
}

// pending lists the client's pending operations.
func pending(t *testing.T, c *redo.Client) []redo.Operation {
	t.Helper()
	var ops []redo.Operation
	for op, err := range c.Pending(t.Context()) {
		require.NoError(t, err)
		ops = append(ops, op)
	}
	return ops
}

// A tripper is a transport in one function.
type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := f(r)
	if r.Body != nil {
		_ = r.Body.Close() // as the interface requires
	}
	return resp, err
}

// answer returns a response as a transport does.
func answer(r *http.Request, status int, body string, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Add(header[i], header[i+1])
	}
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h,
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}
}

// A faultyStore is a store whose calls fail with the errors that are set.
type faultyStore struct {
	*memstore.Store
	mu                          sync.Mutex
	atReserve, atComplete       error
	atForget                    error
	reserves, completes, failed int
}

func (s *faultyStore) set(reserve, complete, forget error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.atReserve, s.atComplete, s.atForget = reserve, complete, forget
}

func (s *faultyStore) count(n *int, err *error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n++
	if *err != nil {
		s.failed++
	}
	return *err
}

func (s *faultyStore) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	if err := s.count(&s.reserves, &s.atReserve); err != nil {
		return store.Grant{}, err
	}
	return s.Store.Reserve(ctx, c)
}

func (s *faultyStore) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	if err := s.count(&s.completes, &s.atComplete); err != nil {
		return err
	}
	return s.Store.Complete(ctx, l, o)
}

func (s *faultyStore) Forget(ctx context.Context, l store.Lease) error {
	if err := s.count(new(int), &s.atForget); err != nil {
		return err
	}
	return s.Store.Forget(ctx, l)
}

// A watchedBody is a body that counts its closings.
type watchedBody struct {
	io.Reader
	closed atomic.Int32
}

func (b *watchedBody) Close() error {
	b.closed.Add(1)
	return nil
}

// claimOf is the claim that a client makes for the request of the operation "op".
func claimOf(t *testing.T, srv *servertest.Server, req *http.Request) store.Claim {
	t.Helper()
	return store.Claim{
		ID:          store.ID{Scope: "redo", Key: "op"},
		Fingerprint: store.Raw(req.Method, srv.URL+req.URL.EscapedPath(), req.URL.RawQuery, []byte(payment)),
		Retention:   store.Forever,
	}
}

// slow makes every effect take d and responds with its ID.
func slow(d time.Duration) servertest.Option {
	return servertest.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(d)
		effect, err := servertest.Effect(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, effect.ID)
	}))
}
