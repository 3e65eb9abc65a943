package plain

import (
	"net/http"
	"testing"

	"github.com/redo-go/redo/server/framework/internal/frametest"
)

// Any framework that is an http.Handler can stand behind a mux that names its routes.
func TestMuxInFront(t *testing.T) {
	frametest.Run(t, frametest.Wiring{
		Serve: func(t *testing.T, a *frametest.App) string {
			mw, app := a.Middleware, HandlerWithOptions(shopServer(routes(a)), StdHTTPServerOptions{})
			front := http.NewServeMux()
			front.Handle("POST /charges/{id}", mw(app))
			front.Handle("POST /refunds", mw(app))
			front.Handle("/", app)
			for path := range routes(a) {
				if path != "/charges/{id}" && path != "/refunds" {
					front.Handle("POST "+path, mw(app))
				}
			}
			return frametest.Serve(t, recoverer(authenticate(front)))
		},
		Principal: principal,
	})
}
