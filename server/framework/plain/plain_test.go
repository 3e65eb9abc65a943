package plain

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/server/framework/internal/frametest"
	"github.com/redo-go/redo/store/memstore"
)

type userKey struct{}

// authenticate puts the user into the request's context, where principal finds it.
func authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, r.Header.Get("X-User"))))
	})
}

func principal(r *http.Request) string {
	user, _ := r.Context().Value(userKey{}).(string)
	return user
}

func TestNetHTTP(t *testing.T) {
	frametest.Run(t, frametest.Wiring{
		Serve: func(t *testing.T, a *frametest.App) string {
			mux := http.NewServeMux()
			for path, h := range routes(a) {
				mux.Handle("POST "+path, a.Middleware(h))
			}
			return frametest.Serve(t, recoverer(authenticate(mux)))
		},
		Principal: principal,
	})
}

func TestChi(t *testing.T) {
	frametest.Run(t, frametest.Wiring{
		Serve: func(t *testing.T, a *frametest.App) string {
			r := chi.NewRouter()
			r.Use(recoverer, authenticate)
			r.Group(func(r chi.Router) {
				for path, h := range routes(a) {
					r.With(a.Middleware).Method(http.MethodPost, path, h)
				}
			})
			return frametest.Serve(t, r)
		},
		Principal: principal,
	})
}

// chi runs the middleware of a router before it matches a route below that router. The second route then shares the
// scope of the first, and its handler does not run.
func TestChiRoutesHaveScopesOfTheirOwn(t *testing.T) {
	type middleware = func(http.Handler) http.Handler
	for name, test := range map[string]struct {
		wire func(r chi.Router, mw middleware, h http.HandlerFunc)
		runs int
	}{
		"With": {func(r chi.Router, mw middleware, h http.HandlerFunc) {
			r.With(mw).Post("/v1/charges", h)
			r.With(mw).Post("/v1/refunds", h)
		}, 2},
		"Group": {func(r chi.Router, mw middleware, h http.HandlerFunc) {
			r.Group(func(r chi.Router) {
				r.Use(mw)
				r.Post("/v1/charges", h)
				r.Post("/v1/refunds", h)
			})
		}, 2},
		"With inside Route": {func(r chi.Router, mw middleware, h http.HandlerFunc) {
			r.Route("/v1", func(r chi.Router) {
				r.With(mw).Post("/charges", h)
				r.With(mw).Post("/refunds", h)
			})
		}, 2},
		"Use inside Route": {func(r chi.Router, mw middleware, h http.HandlerFunc) {
			r.Route("/v1", func(r chi.Router) {
				r.Use(mw)
				r.Post("/charges", h)
				r.Post("/refunds", h)
			})
		}, 1},
		"With before Route": {func(r chi.Router, mw middleware, h http.HandlerFunc) {
			r.With(mw).Route("/v1", func(r chi.Router) {
				r.Post("/charges", h)
				r.Post("/refunds", h)
			})
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			mw, err := server.New(memstore.New(), server.SharedKeys(), server.SilentOK())
			if err != nil {
				t.Fatal(err)
			}
			runs, router := 0, chi.NewRouter()
			test.wire(router, mw, func(http.ResponseWriter, *http.Request) { runs++ })
			for _, path := range []string{"/v1/charges", "/v1/refunds"} {
				r := httptest.NewRequest(http.MethodPost, path, nil)
				r.Header.Set("Idempotency-Key", "k")
				router.ServeHTTP(httptest.NewRecorder(), r)
			}
			if runs != test.runs {
				t.Errorf("%d runs, want %d", runs, test.runs)
			}
		})
	}
}

// recoverer is chi's, which serves net/http as well, without its log.
func recoverer(next http.Handler) http.Handler {
	h := middleware.Recoverer(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, middleware.WithLogEntry(r, noLog{}))
	})
}

func routes(a *frametest.App) map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"/charges/{id}": func(w http.ResponseWriter, r *http.Request) {
			a.Add("charge")
			w.Header().Set("X-Charge", "ch_1")
			writeJSON(w, map[string]any{"charge": r.PathValue("id")})
		},
		"/refunds": func(w http.ResponseWriter, _ *http.Request) {
			a.Add("refund")
			writeJSON(w, map[string]any{"refund": "rf_1"})
		},
		"/invalid": func(w http.ResponseWriter, _ *http.Request) {
			a.Add("invalid")
			http.Error(w, "cents must be positive", http.StatusUnprocessableEntity)
		},
		"/unavailable": func(w http.ResponseWriter, _ *http.Request) {
			a.Add("unavailable")
			http.Error(w, "try later", http.StatusServiceUnavailable)
		},
		"/panic": func(http.ResponseWriter, *http.Request) {
			a.Add("panic")
			panic(frametest.Secret)
		},
		"/stream": func(w http.ResponseWriter, _ *http.Request) {
			a.Add("stream")
			for _, line := range []string{"one", "two", "three"} {
				_, _ = fmt.Fprintln(w, line)
				_ = http.NewResponseController(w).Flush()
			}
		},
		"/slow": func(w http.ResponseWriter, _ *http.Request) {
			a.Add("slow")
			a.Hold()
			writeJSON(w, map[string]any{"slow": true})
		},
		"/hints": func(w http.ResponseWriter, _ *http.Request) {
			a.Add("hints")
			w.Header().Set("Link", "</a.css>")
			w.WriteHeader(http.StatusEarlyHints)
			writeJSON(w, map[string]any{"hints": true})
		},
		"/silent": func(http.ResponseWriter, *http.Request) { a.Add("silent") },
	}
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(v)
}

type noLog struct{}

func (noLog) Write(int, int, http.Header, time.Duration, any) {}
func (noLog) Panic(any, []byte)                               {}
