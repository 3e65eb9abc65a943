package plain

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/gorilla/mux"
	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/julienschmidt/httprouter"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/server/framework/internal/frametest"
	"github.com/redo-go/redo/store/memstore"
)

func TestGorilla(t *testing.T) {
	frametest.Run(t, frametest.Wiring{
		Serve: func(t *testing.T, a *frametest.App) string {
			mw, router := a.Middleware, mux.NewRouter()
			router.Use(recoverer)
			router.Use(authenticate, matched, mw)
			for path, h := range routes(a) {
				router.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
					r.SetPathValue("id", mux.Vars(r)["id"])
					h(w, r)
				}).Methods(http.MethodPost)
			}
			return frametest.Serve(t, router)
		},
		Principal: principal,
	})
}

// matched gives the middleware the pattern of gorilla's route.
func matched(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path, err := mux.CurrentRoute(r).GetPathTemplate(); err == nil {
			r.Pattern = r.Method + " " + path
		}
		next.ServeHTTP(w, r)
	})
}

// Without the pattern the second route shares the scope of the first, and its handler does not run.
func TestGorillaNeedsThePattern(t *testing.T) {
	for name, test := range map[string]struct {
		before []mux.MiddlewareFunc
		runs   int
	}{
		"with it":    {[]mux.MiddlewareFunc{matched}, 2},
		"without it": {nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			mw, err := server.New(memstore.New(), server.SharedKeys(), server.SilentOK())
			if err != nil {
				t.Fatal(err)
			}
			runs, router := 0, mux.NewRouter()
			router.Use(append(test.before, mw)...)
			for _, path := range []string{"/charges", "/refunds"} {
				router.HandleFunc(path, func(http.ResponseWriter, *http.Request) { runs++ })
			}
			for _, path := range []string{"/charges", "/refunds"} {
				frametest.Post(router, path)
			}
			if runs != test.runs {
				t.Errorf("%d runs, want %d", runs, test.runs)
			}
		})
	}
}

func TestHTTPRouter(t *testing.T) {
	frametest.Run(t, frametest.Wiring{
		Serve: func(t *testing.T, a *frametest.App) string {
			mw, router := a.Middleware, httprouter.New()
			for path, h := range routes(a) {
				path = strings.Replace(path, "{id}", ":id", 1)
				charge := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					r.SetPathValue("id", httprouter.ParamsFromContext(r.Context()).ByName("id"))
					h(w, r)
				})
				router.Handler(http.MethodPost, path, pattern("POST "+path, mw(charge)))
			}
			return frametest.Serve(t, recoverer(authenticate(router)))
		},
		Principal: principal,
	})
}

// pattern gives the middleware the pattern of a route.
func pattern(name string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Pattern = name
		next.ServeHTTP(w, r)
	})
}

func TestGRPCGateway(t *testing.T) {
	frametest.Run(t, frametest.Wiring{
		Serve: func(t *testing.T, a *frametest.App) string {
			mw := a.Middleware
			gateway := runtime.NewServeMux(runtime.WithMiddlewares(keyed(mw)))
			for path, h := range routes(a) {
				err := gateway.HandlePath(http.MethodPost, path,
					func(w http.ResponseWriter, r *http.Request, params map[string]string) {
						r.SetPathValue("id", params["id"])
						h(w, r)
					})
				if err != nil {
					t.Fatal(err)
				}
			}
			return frametest.Serve(t, recoverer(authenticate(gateway)))
		},
		Principal: principal,
	})
}

// paramsKey is for the parameters of a path, which pass the middleware in the request's context.
type paramsKey struct{}

func keyed(mw func(http.Handler) http.Handler) runtime.Middleware {
	return func(next runtime.HandlerFunc) runtime.HandlerFunc {
		h := mw(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			params, _ := r.Context().Value(paramsKey{}).(map[string]string)
			next(w, r, params)
		}))
		return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
			if p, ok := runtime.HTTPPattern(r.Context()); ok {
				r.Pattern = r.Method + " " + p.String()
			}
			h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), paramsKey{}, params)))
		}
	}
}
