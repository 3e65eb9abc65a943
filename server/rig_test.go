package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// faults is a store that can fail. On is asked at each call, with the method's name and how often it was called before;
// it calls do for the real thing, or does not.
type faults struct {
	store.Store
	on func(method string, nth int, do func() error) error

	mu    sync.Mutex
	calls map[string]int
}

func newFaults(on func(method string, nth int, do func() error) error) *faults {
	return &faults{Store: memstore.New(), on: on, calls: map[string]int{}}
}

// failing makes every call of one method fail without being made.
func failing(method string, err error) func(string, int, func() error) error {
	return func(m string, _ int, do func() error) error {
		if m == method {
			return err
		}
		return do()
	}
}

func (f *faults) call(method string, do func() error) error {
	f.mu.Lock()
	nth, on := f.calls[method], f.on
	f.calls[method]++
	f.mu.Unlock()
	if on == nil {
		return do()
	}
	return on(method, nth, do)
}

func (f *faults) count(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[method]
}

func (f *faults) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on = nil
}

func (f *faults) Reserve(ctx context.Context, c store.Claim) (g store.Grant, err error) {
	err = f.call("Reserve", func() (err error) { g, err = f.Store.Reserve(ctx, c); return err })
	return g, err
}

func (f *faults) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	return f.call("Extend", func() error { return f.Store.Extend(ctx, l, d, meta) })
}

func (f *faults) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	return f.call("Complete", func() error { return f.Store.Complete(ctx, l, o) })
}

func (f *faults) Release(ctx context.Context, l store.Lease) error {
	return f.call("Release", func() error { return f.Store.Release(ctx, l) })
}

func (f *faults) Find(ctx context.Context, id store.ID) (r store.Record, err error) {
	err = f.call("Find", func() (err error) { r, err = f.Store.Find(ctx, id); return err })
	return r, err
}

// A rig is a route behind the middleware that counts how often its handler runs.
type rig struct {
	http.Handler
	t          *testing.T
	background *server.Background
	mu         sync.Mutex
	runs       int
}

// newRig is newTenantRig for a route whose callers share their keys.
func newRig(t *testing.T, st store.Store, run http.HandlerFunc, opts ...server.Option) *rig {
	t.Helper()
	return newTenantRig(t, st, run, append(opts, server.SharedKeys())...)
}

// newTenantRig serves run, or by default a 201 with a body, under the route's pattern. The options must have a
// Principal.
func newTenantRig(t *testing.T, st store.Store, run http.HandlerFunc, opts ...server.Option) *rig {
	t.Helper()
	if run == nil {
		run = created
	}
	g := &rig{t: t, background: new(server.Background)}
	t.Cleanup(g.shutdown)
	mw, err := server.New(st, append([]server.Option{server.RunIn(g.background)}, opts...)...)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/refunds/{id}", mw(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		g.runs++
		g.mu.Unlock()
		run(w, r)
	})))
	g.Handler = mux
	return g
}

// shutdown ends the rig's background work, as the end of the process would.
func (g *rig) shutdown() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = g.background.Shutdown(ctx)
}

func created(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, `{"id":"rf_123"}`)
}

// answer makes a handler that responds with one status and a body.
func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func (g *rig) ran() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.runs
}

// request makes the request that every test starts from; edits change it.
func request(ctx context.Context, edits ...func(*http.Request)) *http.Request {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/refunds/ch_1", strings.NewReader(`{"amount":1000}`))
	r.Header.Set("Idempotency-Key", "k1")
	for _, edit := range edits {
		edit(r)
	}
	return r
}

func (g *rig) do(edits ...func(*http.Request)) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	g.ServeHTTP(w, request(g.t.Context(), edits...))
	return w
}

// start is do on a separate goroutine, up to where that blocks. It is for synctest bubbles.
func (g *rig) start(edits ...func(*http.Request)) <-chan *httptest.ResponseRecorder {
	answered := make(chan *httptest.ResponseRecorder, 1)
	go func() { answered <- g.do(edits...) }()
	synctest.Wait()
	return answered
}

func withKey(key string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Idempotency-Key", key) }
}

func withBody(body string) func(*http.Request) {
	return func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	}
}

func withHeader(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// form returns a multipart body that has a file, and its type.
func form(t *testing.T) (body, contentType string) {
	t.Helper()
	var b strings.Builder
	m := multipart.NewWriter(&b)
	part, err := m.CreateFormFile("file", "receipt")
	require.NoError(t, err)
	_, err = io.WriteString(part, strings.Repeat("x", 100))
	require.NoError(t, err)
	require.NoError(t, m.Close())
	return b.String(), m.FormDataContentType()
}

func withMethod(method string) func(*http.Request) {
	return func(r *http.Request) { r.Method = method }
}

func without(name string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Del(name) }
}

// requireProblem checks the status, and that document and header agree on the code.
// overTheWire sends a request with a key and a body of unknown length to a server. It returns the response and its
// body.
func overTheWire(t *testing.T, srv *httptest.Server) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/refunds/1",
		bufio.NewReader(strings.NewReader("x")))
	require.NoError(t, err)
	req.Header.Set("Idempotency-Key", "k")
	resp, err := srv.Client().Do(req)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp, string(body)
}

func requireProblem(t *testing.T, w *httptest.ResponseRecorder, status int, code string) wire.Problem {
	t.Helper()
	require.Equal(t, status, w.Code, w.Body.String())
	require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
	var p wire.Problem
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &p))
	require.Equal(t, code, p.Code)
	require.Equal(t, code, w.Header().Get("Error-Code"))
	require.Equal(t, status, p.Status)
	require.NotEmpty(t, p.Title)
	require.NotEmpty(t, p.Detail)
	require.Empty(t, w.Header().Get("Idempotency-Status"), "a problem is no stored response")
	return p
}

func requireStored(t *testing.T, w *httptest.ResponseRecorder, status int, body string) {
	t.Helper()
	require.Equal(t, status, w.Code, w.Body.String())
	require.Equal(t, body, w.Body.String())
	require.Equal(t, "stored", w.Header().Get("Idempotency-Status"))
	require.Empty(t, w.Header().Get("Idempotent-Replayed"))
}

func requireReplayed(t *testing.T, w *httptest.ResponseRecorder, status int, body string) {
	t.Helper()
	require.Equal(t, status, w.Code, w.Body.String())
	require.Equal(t, body, w.Body.String())
	require.Equal(t, "replayed", w.Header().Get("Idempotency-Status"))
	require.Equal(t, "true", w.Header().Get("Idempotent-Replayed"))
}

// requireReleased checks that the response is the handler's and that the key is free again.
func requireReleased(t *testing.T, w *httptest.ResponseRecorder, status int) {
	t.Helper()
	require.Equal(t, status, w.Code, w.Body.String())
	require.Empty(t, w.Header().Get("Idempotency-Status"))
}
