package server_test

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// ask requests the status of a key.
func ask(t *testing.T, st store.Store, key string, opts ...server.Option) *httptest.ResponseRecorder {
	t.Helper()
	h, err := server.StatusHandler(st, append(opts, server.Route("/refunds/{id}"))...)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("GET /refunds/status", h)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/refunds/status", nil)
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("X-Principal", "a")
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	return w
}

func requireStatus(t *testing.T, w *httptest.ResponseRecorder, body string) {
	t.Helper()
	require.Equal(t, 200, w.Code, w.Body.String())
	require.Equal(t, body, w.Body.String())
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
}

func TestStatusHandler(t *testing.T) {
	shared := server.SharedKeys()
	for _, c := range []struct {
		rule string
		run  http.HandlerFunc
		opts []server.Option
		want string
	}{
		{"a success", nil, nil, `{"state":"complete","status":201}`},
		{"a refusal", answer(422, "no"), nil, `{"state":"failed","status":422}`},
		{"a failure that was stored", answer(500, "no"), []server.Option{keepServerErrors()},
			`{"state":"failed","status":500}`},
		{"a response that was too large to store", nil, []server.Option{server.MaxResponse(1)},
			`{"state":"complete","status":201}`},
	} {
		t.Run("it reports "+c.rule, func(t *testing.T) {
			st := memstore.New()
			g := newRig(t, st, c.run, c.opts...)
			g.do()
			requireStatus(t, ask(t, st, "k1", shared), c.want)
			requireStatus(t, ask(t, st, `"k1"`, shared), c.want)
			require.Equal(t, 1, g.ran())
		})
	}
	t.Run("it reports a running request, and its end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := memstore.New()
			g := newRig(t, st, slow(time.Second))
			first := g.start()
			requireStatus(t, ask(t, st, "k1", shared), `{"state":"pending"}`)
			<-first
			requireStatus(t, ask(t, st, "k1", shared), `{"state":"complete","status":201}`)
		})
	})
	t.Run("it reports an unknown outcome", func(t *testing.T) {
		st := &spy{Store: memstore.New()}
		newRig(t, st, answer(503, "")).do()
		grant, err := st.Reserve(t.Context(), st.last)
		require.NoError(t, err)
		require.NoError(t, st.Complete(t.Context(), grant.Lease, store.UnknownOutcome()))
		requireStatus(t, ask(t, st, "k1", shared), `{"state":"unknown"}`)
	})
	t.Run("a record that has expired is gone", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := memstore.New()
			newRig(t, st, nil).do()
			time.Sleep(server.DefaultRetention - time.Nanosecond)
			requireStatus(t, ask(t, st, "k1", shared), `{"state":"complete","status":201}`)
			time.Sleep(time.Nanosecond)
			requireProblem(t, ask(t, st, "k1", shared), 404, "VALIDATION.not_found")
		})
	})
	t.Run("a key is found under an old pepper", func(t *testing.T) {
		st := memstore.New()
		newRig(t, st, nil, beforeRotation).do()
		requireStatus(t, ask(t, st, "k1", shared, secondStep), `{"state":"complete","status":201}`)
		requireProblem(t, ask(t, st, "k1", shared, afterRotation), 404, "VALIDATION.not_found")
	})
}

// A key that no request can take over any more is not pending: a client that polls it would wait for the retention.
func TestStatusHandlerMayHaveAnotherHost(t *testing.T) {
	const body = `{"state":"complete","status":201}`
	for _, c := range []struct {
		rule    string
		pattern string          // of the route
		opts    []server.Option // of the route
		name    string          // for the status
		found   map[string]bool // by the pattern of the status
	}{
		{"a route without a name", "POST a.example/refunds/{id}", nil, "POST a.example/refunds/{id}",
			map[string]bool{"GET /status": true, "GET a.example/status": true, "GET b.example/status": true}},
		{"a route whose name has its host", "POST a.example/refunds/{id}", []server.Option{server.Route("a.example/refund")},
			"a.example/refund",
			map[string]bool{"GET /status": true, "GET a.example/status": true, "GET b.example/status": true}},
		{"a route whose name has a slash", "POST a.example/refunds/{id}", []server.Option{server.Route("v1/refund")},
			"v1/refund", map[string]bool{"GET a.example/status": true, "GET b.example/status": false}},
		{"a route whose name has no host is found at its own", "POST a.example/refunds/{id}",
			[]server.Option{server.Route("refund")}, "refund",
			map[string]bool{"GET /status": false, "GET a.example/status": true, "GET b.example/status": false}},
	} {
		for pattern, found := range c.found {
			t.Run(c.rule+", status at "+pattern, func(t *testing.T) {
				st, runs := memstore.New(), 0
				mux := serve(t, st, &runs, map[string][]server.Option{c.pattern: c.opts})
				status, err := server.StatusHandler(st, server.SharedKeys(), server.Route(c.name))
				require.NoError(t, err)
				mux.Handle(pattern, status)
				srv := httptest.NewServer(mux)
				defer srv.Close()
				send := func(method, host, path string) *http.Response {
					r, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, nil)
					require.NoError(t, err)
					r.Host = host
					r.Header.Set("Idempotency-Key", "k1")
					resp, err := http.DefaultClient.Do(r)
					require.NoError(t, err)
					t.Cleanup(func() { resp.Body.Close() })
					return resp
				}
				require.Equal(t, 201, send(http.MethodPost, "a.example", "/refunds/ch_1").StatusCode)
				host, _, _ := strings.Cut(strings.TrimPrefix(pattern, "GET "), "/")
				resp := send(http.MethodGet, cmp.Or(host, "c.example"), "/status")
				if !found {
					require.Equal(t, 404, resp.StatusCode)
					return
				}
				got, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.Equal(t, body, string(got))
			})
		}
	}
}

func TestStatusHandlerReportsTheKeyOfADeadOwner(t *testing.T) {
	const pending, unknown = `{"state":"pending"}`, `{"state":"unknown"}`
	unmarked, marked := []byte(nil), []byte{1, 1} // the note of Applied
	for _, c := range []struct {
		rule   string
		meta   []byte
		policy server.TakeOverPolicy
		live   string
		dead   string
	}{
		{"that the next request takes over", unmarked, server.Reexecute(), pending, pending},
		{"that Applied has marked", marked, server.Reexecute(), pending, unknown},
		{"that the policy refuses", unmarked, server.Refuse(), pending, unknown},
		{"that a function finds out about", marked, server.Recover(recovered), pending, pending},
		{"whose note is of another version", []byte{9, 9}, server.Refuse(), pending, pending},
	} {
		t.Run(c.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &spy{Store: memstore.New()}
				newRig(t, st, answer(503, "")).do()
				claim := st.last
				claim.Meta = c.meta
				_, err := st.Reserve(t.Context(), claim)
				require.NoError(t, err)
				options := []server.Option{server.SharedKeys(), server.TakeOver(c.policy)}
				requireStatus(t, ask(t, st, "k1", options...), c.live)
				time.Sleep(claim.Lease)
				requireStatus(t, ask(t, st, "k1", options...), c.dead)
			})
		})
	}
}

func recovered(context.Context, *http.Request, string, []byte) (http.Handler, error) {
	return answer(200, "found"), nil
}

// Another principal's key looks like one that was never used.
func TestStatusHandlerTellsOthersNothing(t *testing.T) {
	st := memstore.New()
	byPrincipal := server.Principal(principalHeader)
	g := newTenantRig(t, st, nil, byPrincipal)
	g.do(withHeader("X-Principal", "b"))
	others, absent := ask(t, st, "k1", byPrincipal), ask(t, st, "k2", byPrincipal)
	requireProblem(t, others, 404, "VALIDATION.not_found")
	require.Equal(t, absent.Body.String(), others.Body.String())
	require.Equal(t, absent.Header(), others.Header())
	g.do(withHeader("X-Principal", "a"))
	requireStatus(t, ask(t, st, "k1", byPrincipal), `{"state":"complete","status":201}`)
	nobody := server.Principal(func(*http.Request) string { return "" })
	requireProblem(t, ask(t, st, "k1", nobody), 401, "AUTH.unauthenticated")
}

func TestStatusHandlerRefuses(t *testing.T) {
	shared := server.SharedKeys()
	t.Run("a key that is malformed, missing or of another form", func(t *testing.T) {
		st := newFaults(nil)
		requireProblem(t, ask(t, st, `"open`, shared), 400, "VALIDATION.idempotency_key.malformed")
		requireProblem(t, ask(t, st, "k1", shared, server.UUIDKeys()), 400, "VALIDATION.idempotency_key.malformed")
		w := ask(t, st, "k1", shared, server.Header("X-Refund-Key"))
		p := requireProblem(t, w, 400, "VALIDATION.idempotency_key.missing")
		require.Contains(t, p.Detail, "X-Refund-Key")
		require.Empty(t, st.calls)
	})
	t.Run("when the store fails", func(t *testing.T) {
		w := ask(t, newFaults(failing("Find", store.ErrUnavailable)), "k1", shared)
		requireProblem(t, w, 503, "DEPENDENCY.unavailable")
		require.NotEmpty(t, w.Header().Get("Retry-After"))
	})
	t.Run("a record that it can't read", func(t *testing.T) {
		for _, c := range []struct {
			result []byte
			status int
			code   string
		}{
			{[]byte("damaged"), 503, "DEPENDENCY.unavailable"}, // its first byte is a later version
			{[]byte{1}, 500, "CONFIGURATION.stored_response"},
			{wire.AppendTombstone(nil, 201), 200, ""},
		} {
			st := &spy{Store: memstore.New()}
			newRig(t, st, answer(503, "")).do()
			grant, err := st.Reserve(t.Context(), st.last)
			require.NoError(t, err)
			require.NoError(t, st.Complete(t.Context(), grant.Lease, store.Outcome{Result: c.result}))
			w := ask(t, st, "k1", shared)
			require.Equal(t, c.status, w.Code)
			require.Equal(t, c.code, w.Header().Get("Error-Code"))
		}
	})
	t.Run("methods that are not GET or HEAD", func(t *testing.T) {
		st := memstore.New()
		newRig(t, st, nil).do()
		h, err := server.StatusHandler(st, shared, server.Route("/refunds/{id}"), server.Refusal(inOwnFormat))
		require.NoError(t, err)
		for method, want := range map[string]int{"GET": 200, "HEAD": 200, "POST": 405, "DELETE": 405} {
			w := do(t, h, withMethod(method))
			require.Equal(t, want, w.Code, method)
			if want == 405 {
				require.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
				require.Contains(t, w.Body.String(), `{"error":{"type":"VALIDATION.method_not_allowed"`,
					"in the API's own format")
			}
		}
	})
	t.Run("to start with wrong options", func(t *testing.T) {
		_, err := server.StatusHandler(nil, server.MaxBody(-1))
		for _, want := range []string{"the store must not be nil", "MaxBody", "requires Route", "SharedKeys()"} {
			require.ErrorContains(t, err, want)
		}
		_, err = server.StatusHandler(memstore.New(), shared, server.Route("refund"))
		require.NoError(t, err)
	})
}

// The store calls of the handler are observed, and are no requests under a key.
func TestStatusHandlerIsObserved(t *testing.T) {
	o := &recorder{}
	ask(t, memstore.New(), "k1", server.SharedKeys(), server.Observe(o))
	require.Equal(t, []string{"Find"}, o.methods())
	require.Empty(t, o.events)
}

func TestStatusHandlerLogsWhatItCannotRead(t *testing.T) {
	var log bytes.Buffer
	logger := server.Logger(slog.New(slog.NewTextHandler(&log, nil)))
	w := ask(t, newFaults(failing("Find", store.ErrUnavailable)), "k1", server.SharedKeys(), logger)
	requireProblem(t, w, 503, "DEPENDENCY.unavailable")
	require.Contains(t, log.String(), "level=ERROR")
	require.Contains(t, log.String(), "operation=/refunds/{id}")
	require.Contains(t, log.String(), store.ErrUnavailable.Error())
}
