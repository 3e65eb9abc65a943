package plain

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/server/framework/internal/frametest"
	"github.com/redo-go/redo/store/memstore"
)

//go:generate oapi-codegen -generate std-http-server -package plain -o shop_gen_test.go testdata/shop.yaml

// A shopServer has the operations of the generated server.
type shopServer map[string]http.HandlerFunc

func (s shopServer) CreateCharge(w http.ResponseWriter, r *http.Request, _ string) {
	s["/charges/{id}"](w, r)
}
func (s shopServer) CreateRefund(w http.ResponseWriter, r *http.Request) { s["/refunds"](w, r) }
func (s shopServer) Invalid(w http.ResponseWriter, r *http.Request)      { s["/invalid"](w, r) }
func (s shopServer) Unavailable(w http.ResponseWriter, r *http.Request)  { s["/unavailable"](w, r) }
func (s shopServer) Panic(w http.ResponseWriter, r *http.Request)        { s["/panic"](w, r) }
func (s shopServer) Stream(w http.ResponseWriter, r *http.Request)       { s["/stream"](w, r) }
func (s shopServer) Slow(w http.ResponseWriter, r *http.Request)         { s["/slow"](w, r) }
func (s shopServer) Hints(w http.ResponseWriter, r *http.Request)        { s["/hints"](w, r) }
func (s shopServer) Silent(w http.ResponseWriter, r *http.Request)       { s["/silent"](w, r) }

func TestOapiCodegen(t *testing.T) {
	frametest.Run(t, frametest.Wiring{
		Serve: func(t *testing.T, a *frametest.App) string {
			mw, api := a.Middleware, shopServer(routes(a))
			handler := HandlerWithOptions(api, StdHTTPServerOptions{
				Middlewares: []MiddlewareFunc{mw, authenticate, recoverer}, // the last one is outermost
			})
			return frametest.Serve(t, handler)
		},
		Principal: principal,
	})
}

// In the usual order the middleware is outside of the authentication, and refuses each request.
func TestOapiCodegenRunsTheLastMiddlewareFirst(t *testing.T) {
	for name, test := range map[string]struct {
		middlewares func(mw MiddlewareFunc) []MiddlewareFunc
		status      int
	}{
		"authentication last": {func(mw MiddlewareFunc) []MiddlewareFunc {
			return []MiddlewareFunc{mw, authenticate}
		}, http.StatusOK},
		"authentication first": {func(mw MiddlewareFunc) []MiddlewareFunc {
			return []MiddlewareFunc{authenticate, mw}
		}, http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			mw, err := server.New(memstore.New(), server.Principal(principal), server.SilentOK())
			if err != nil {
				t.Fatal(err)
			}
			api := shopServer{"/refunds": func(http.ResponseWriter, *http.Request) {}}
			handler := HandlerWithOptions(api, StdHTTPServerOptions{Middlewares: test.middlewares(mw)})
			r := httptest.NewRequest(http.MethodPost, "/refunds", nil)
			r.Header.Set("Idempotency-Key", "k")
			r.Header.Set("X-User", "alice")
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != test.status {
				t.Errorf("status %d, want %d: %s", w.Code, test.status, w.Body)
			}
		})
	}
}
