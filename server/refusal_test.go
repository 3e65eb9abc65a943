package server_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

// inOwnFormat renders a refusal as another API would.
func inOwnFormat(w http.ResponseWriter, _ *http.Request, p server.Problem) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(p.Status)
	fmt.Fprintf(w, `{"error":{"type":%q,"retry":%v,"key":%q}}`, p.Code, p.Retryable, p.Key)
}

func TestRefusal(t *testing.T) {
	long := string(make([]byte, 100))
	for _, c := range []struct {
		code   taxonomy.Code
		status int
		key    string
		store  store.Store
		opts   []server.Option
		first  []func(*http.Request) // nil: there is no first request
		edits  []func(*http.Request)
	}{
		{code: taxonomy.KeyMissing, status: 400, opts: []server.Option{server.Required()},
			edits: []func(*http.Request){without("Idempotency-Key")}},
		{code: taxonomy.KeyMalformed, status: 400, edits: []func(*http.Request){withKey(`"open`)}},
		{code: taxonomy.ContentTooLarge, status: 413, key: "k1", opts: []server.Option{server.MaxBody(99)},
			edits: []func(*http.Request){withBody(long)}},
		{code: taxonomy.PayloadMismatch, status: 409, key: "k1",
			first: []func(*http.Request){}, edits: []func(*http.Request){withBody("other")}},
		{code: taxonomy.PayloadMismatch, status: 422, key: "k1", opts: []server.Option{server.IETFStatuses()},
			first: []func(*http.Request){}, edits: []func(*http.Request){withBody("other")}},
		{
			code: taxonomy.Unavailable, status: 503, key: "k1",
			store: newFaults(failing("Reserve", store.ErrUnavailable)),
		},
		{code: taxonomy.Unavailable, status: 503, key: "k1", store: newFaults(failing("Complete", store.ErrLost))},
	} {
		t.Run(fmt.Sprint(c.code, " ", c.status), func(t *testing.T) {
			if c.store == nil {
				c.store = memstore.New()
			}
			var got server.Problem
			refusal := server.Refusal(func(w http.ResponseWriter, r *http.Request, p server.Problem) {
				got = p
				require.Equal(t, string(p.Code), w.Header().Get("Error-Code"))
				require.Empty(t, w.Header().Get("Content-Type"), "of the handler's own response")
				require.Equal(t, "/refunds/ch_1", r.URL.Path)
				inOwnFormat(w, r, p)
			})
			g := newRig(t, c.store, nil, append(c.opts, refusal)...)
			if c.first != nil {
				requireStored(t, g.do(c.first...), 201, `{"id":"rf_123"}`)
			}
			w := g.do(c.edits...)
			require.Equal(t, c.status, w.Code)
			want := fmt.Sprintf(`{"error":{"type":%q,"retry":%v,"key":%q}}`, c.code, c.code.Transient(), c.key)
			require.Equal(t, want, w.Body.String())
			require.Equal(t, "application/json", w.Header().Get("Content-Type"))
			require.Equal(t, string(c.code), w.Header().Get("Error-Code"))
			require.Equal(t, c.status, got.Status)
			require.NotEmpty(t, got.Title)
			require.NotEmpty(t, got.Detail)
			wait := w.Header().Get("Retry-After")
			require.Equal(t, c.code == taxonomy.Unavailable, wait != "")
			if wait != "" {
				require.Equal(t, wait, strconv.Itoa(int(got.RetryAfter.Seconds())))
			}
		})
	}
	t.Run("a key in flight has its Retry-After", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, memstore.New(), slow(time.Second), server.Refusal(inOwnFormat))
			first := g.start()
			w := g.do()
			require.Equal(t, 409, w.Code)
			require.NotEmpty(t, w.Header().Get("Retry-After"))
			require.Contains(t, w.Body.String(), "in_flight")
			requireStored(t, <-first, 201, `{"id":"rf_123"}`)
		})
	})
	t.Run("headers of layers outside stay, but those of another body", func(t *testing.T) {
		g := newRig(t, memstore.New(), nil, server.Required(), server.Refusal(inOwnFormat))
		w := do(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Outer", "1")
			w.Header().Set("Etag", `"v1"`)
			w.Header().Set("Content-Length", "999")
			g.ServeHTTP(w, r)
		}), without("Idempotency-Key"))
		require.Equal(t, 400, w.Code)
		require.Equal(t, "1", w.Header().Get("X-Outer"))
		require.Empty(t, w.Header().Get("Etag"))
		require.Empty(t, w.Header().Get("Content-Length"))
	})
	t.Run("wrong options are refused in the same format", func(t *testing.T) {
		h := server.Middleware(memstore.New(), server.Refusal(inOwnFormat))(http.HandlerFunc(created))
		w := do(t, h)
		require.Equal(t, 500, w.Code)
		require.Contains(t, w.Body.String(), "CONFIGURATION.middleware")
	})
	t.Run("the handler's own refusals are its own", func(t *testing.T) {
		g := newRig(t, memstore.New(), answer(404, "no such charge"), server.Refusal(inOwnFormat))
		requireStored(t, g.do(), 404, "no such charge")
		requireReplayed(t, g.do(), 404, "no such charge")
	})
}

// A refusal that looks like a success would make the client believe that its request was done.
func TestRefusalIsNoSuccess(t *testing.T) {
	for rule, status := range map[string]int{"a body without a status": 0, "a success": 200, "a redirect": 302} {
		f := func(w http.ResponseWriter, _ *http.Request, _ server.Problem) {
			if status != 0 {
				w.WriteHeader(status)
			}
			_, _ = io.WriteString(w, "x")
		}
		t.Run(rule+" gets the problem's status", func(t *testing.T) {
			w := newRig(t, memstore.New(), nil, server.Required(), server.Refusal(f)).do(without("Idempotency-Key"))
			require.Equal(t, 400, w.Code)
			require.Equal(t, "x", w.Body.String())
		})
	}
	t.Run("nothing at all becomes a problem document", func(t *testing.T) {
		nothing := server.Refusal(func(http.ResponseWriter, *http.Request, server.Problem) {})
		w := newRig(t, memstore.New(), nil, server.Required(), nothing).do(without("Idempotency-Key"))
		requireProblem(t, w, 400, "VALIDATION.idempotency_key.missing")
	})
	t.Run("an interim response comes before it, and a flush passes", func(t *testing.T) {
		w := &wireWriter{sink: sink{header: http.Header{}}}
		flushing := server.Refusal(func(w http.ResponseWriter, _ *http.Request, _ server.Problem) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusOK)
			require.NoError(t, http.NewResponseController(w).Flush())
		})
		newRig(t, memstore.New(), nil, server.Required(), flushing).
			ServeHTTP(w, request(t.Context(), without("Idempotency-Key")))
		require.Equal(t, []int{103, 400}, w.statuses)
		require.Equal(t, 1, w.flushes)
	})
	t.Run("a flush without a status sends the problem's", func(t *testing.T) {
		flushing := server.Refusal(func(w http.ResponseWriter, _ *http.Request, _ server.Problem) {
			require.NoError(t, http.NewResponseController(w).Flush())
		})
		w := newRig(t, memstore.New(), nil, server.Required(), flushing).do(without("Idempotency-Key"))
		require.Equal(t, 400, w.Code)
		require.True(t, w.Flushed)
	})
	t.Run("another refusal is sent as it is, and observed", func(t *testing.T) {
		o := &recorder{}
		teapot := server.Refusal(func(w http.ResponseWriter, _ *http.Request, _ server.Problem) { w.WriteHeader(418) })
		w := newRig(t, memstore.New(), nil, server.Required(), teapot, server.Observe(o)).do(without("Idempotency-Key"))
		require.Equal(t, 418, w.Code)
		require.Equal(t, 418, o.events[0].Status)
	})
	t.Run("a problem document can be sent by the function too", func(t *testing.T) {
		plain := server.Refusal(func(w http.ResponseWriter, _ *http.Request, p server.Problem) { p.Write(w) })
		w := newRig(t, memstore.New(), nil, server.Required(), plain).do(without("Idempotency-Key"))
		requireProblem(t, w, 400, "VALIDATION.idempotency_key.missing")
	})
}
