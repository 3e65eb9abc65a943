package frametest

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/memstore"
)

// Run checks the wiring against every rule.
func Run(t *testing.T, w Wiring) {
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			if c.skip != nil && c.skip(w) {
				t.Skip("not in this framework")
			}
			serve, principal := w.Serve, w.Principal
			if c.wrong {
				serve, principal = w.Wrong, func(r *http.Request) string { return r.Header.Get("X-User") }
			}
			var opts []server.Option
			if c.refusal {
				opts = append(opts, server.Refusal(w.Refusal))
			}
			c.run(start(t, serve, principal, opts...))
		})
	}
}

// A client sends requests to one application.
type client struct {
	*testing.T
	app *App
	url string
	log *record
}

func start(
	t *testing.T,
	serve func(*testing.T, *App) string,
	principal func(*http.Request) string,
	opts ...server.Option,
) *client {
	t.Helper()
	log := &record{}
	mw, err := server.New(memstore.New(), append(opts, server.Principal(principal), server.Required(),
		server.Logger(slog.New(slog.NewTextHandler(log, nil))))...)
	require.NoError(t, err)
	a := &App{Middleware: mw, effects: map[string]int{}, entered: make(chan struct{}, 1), release: make(chan struct{})}
	return &client{T: t, app: a, url: serve(t, a), log: log}
}

// A reply is a response that was read whole.
type reply struct {
	status int
	header http.Header
	body   string
	hints  []string // informational responses: the status and Link
}

func (r reply) replayed() bool { return r.header.Get("Idempotency-Status") == "replayed" }
func (r reply) stored() bool   { return r.header.Get("Idempotency-Status") == "stored" }

// post sends a request with a key, as the user.
func (c *client) post(path, key, user string) reply {
	c.Helper()
	r, err := c.send(path, key, user)
	require.NoError(c, err)
	return r
}

func (c *client) send(path, key, user string) (r reply, err error) {
	ctx := httptrace.WithClientTrace(c.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			r.hints = append(r.hints, fmt.Sprint(code, " ", header.Get("Link")))
			return nil
		},
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+path, bytes.NewBufferString(`{"cents":1000}`))
	if err != nil {
		return r, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("X-User", user)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return r, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	r.status, r.header, r.body = resp.StatusCode, resp.Header, string(body)
	return r, err
}

func (c *client) effects(name string, want int) {
	c.Helper()
	require.Equal(c, want, c.app.count(name), "effects of %q", name)
}

// same requires that again is a replay of first.
func (c *client) same(first, again reply) {
	c.Helper()
	require.True(c, again.replayed(), "%d %v %q", again.status, again.header, again.body)
	require.Equal(c, first.status, again.status)
	require.Equal(c, first.body, again.body)
	require.Equal(c, first.header.Get("Content-Type"), again.header.Get("Content-Type"))
}

// A record keeps the log.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (r *record) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

// String returns the log.
func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// Serve serves a net/http handler on a port of the loopback interface, and returns its URL.
func Serve(t *testing.T, h http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

// Post sends a request with the key "k" to a net/http handler, and returns the status.
func Post(h http.Handler, path string) int {
	r := httptest.NewRequest(http.MethodPost, path, nil)
	r.Header.Set("Idempotency-Key", "k")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}
