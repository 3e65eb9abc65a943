package plain

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/redo-go/redo/server/framework/internal/frametest"
)

// A keyedMux is a mux for huma. It puts the middleware around the handler of each route.
type keyedMux struct {
	*http.ServeMux
	middleware func(http.Handler) http.Handler
}

func (m keyedMux) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	m.Handle(pattern, m.middleware(http.HandlerFunc(h)))
}

func TestHuma(t *testing.T) {
	frametest.Run(t, frametest.Wiring{
		Serve: func(t *testing.T, a *frametest.App) string {
			mw := a.Middleware
			mux := keyedMux{http.NewServeMux(), mw}
			api := humago.New(mux, huma.DefaultConfig("shop", "1.0.0"))
			operations(api, a)
			for path, h := range routes(a) {
				if path == "/hints" || path == "/silent" { // huma has no 1xx, and gives each operation a response
					mux.HandleFunc("POST "+path, h)
				}
			}
			return frametest.Serve(t, recoverer(authenticate(mux)))
		},
		Principal: principal,
	})
}

type input struct {
	Body struct {
		Cents int `json:"cents"`
	}
}

type output struct {
	Status int
	Charge string `header:"X-Charge"`
	Body   any
}

func operations(api huma.API, a *frametest.App) {
	type charged struct {
		input
		ID string `path:"id"`
	}
	huma.Post(api, "/charges/{id}", func(_ context.Context, in *charged) (*output, error) {
		a.Add("charge")
		return &output{http.StatusCreated, "ch_1", map[string]any{"charge": in.ID}}, nil
	})
	huma.Post(api, "/refunds", func(context.Context, *input) (*output, error) {
		a.Add("refund")
		return &output{http.StatusCreated, "", map[string]any{"refund": "rf_1"}}, nil
	})
	huma.Post(api, "/invalid", func(context.Context, *input) (*output, error) {
		a.Add("invalid")
		return nil, huma.Error422UnprocessableEntity("cents must be positive")
	})
	huma.Post(api, "/unavailable", func(context.Context, *input) (*output, error) {
		a.Add("unavailable")
		return nil, huma.Error503ServiceUnavailable("try later")
	})
	huma.Post(api, "/panic", func(context.Context, *input) (*output, error) {
		a.Add("panic")
		panic(frametest.Secret)
	})
	huma.Post(api, "/slow", func(context.Context, *input) (*output, error) {
		a.Add("slow")
		a.Hold()
		return &output{http.StatusCreated, "", map[string]any{"slow": true}}, nil
	})
	huma.Post(api, "/stream", func(context.Context, *input) (*huma.StreamResponse, error) {
		return &huma.StreamResponse{Body: func(c huma.Context) {
			a.Add("stream")
			_, w := humago.Unwrap(c)
			for _, line := range []string{"one", "two", "three"} {
				_, _ = fmt.Fprintln(w, line)
				_ = http.NewResponseController(w).Flush()
			}
		}}, nil
	})
}
