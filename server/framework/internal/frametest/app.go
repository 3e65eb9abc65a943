package frametest

import (
	"net/http"
	"sync"
	"testing"

	"github.com/redo-go/redo/server"
)

// Secret is the value that the /panic route panics with.
const Secret = "frametest: the handler panics"

// A Wiring is one way to put the middleware into a framework.
type Wiring struct {
	// Serve starts an application and returns its base URL. The framework's recovery is outside of everything. Then
	// comes an authentication that puts the header X-User into the framework's context as "user". Each of these
	// routes is behind the middleware:
	//
	//	POST /charges/{id}   a.Add("charge"), then 201, header X-Charge: ch_1, JSON {"charge":"<id>"}
	//	POST /refunds        a.Add("refund"), then 201, JSON {"refund":"rf_1"}
	//	POST /invalid        a.Add("invalid"), then the framework's error for 422
	//	POST /unavailable    a.Add("unavailable"), then the framework's error for 503
	//	POST /panic          a.Add("panic"), then panic(Secret) before anything is written
	//	POST /stream         a.Add("stream"), then 200 and the lines one, two, three, each flushed
	//	POST /slow           a.Add("slow"), a.Hold(), then 201, JSON {"slow":true}
	//	POST /hints          a.Add("hints"), 103 with the header Link: </a.css>, then 201, JSON {"hints":true}
	//	POST /silent         a.Add("silent"), and returns without a response
	Serve func(t *testing.T, a *App) string

	// Principal returns the user from the request that the middleware has, by way of the framework's context.
	Principal func(*http.Request) string

	// Refusal is the adapter's Refusal. Its function writes a refusal of status 409 not at all, and any other one as
	// 200 with JSON {"refused":"<code>"}. Nil: there is no adapter.
	Refusal func(http.ResponseWriter, *http.Request, server.Problem)

	// Wrong is an application with only POST /charges/{id}, in the wiring that seems to work. Nil: there is none.
	Wrong func(t *testing.T, a *App) string
}

// An App holds the parts of the test that a Wiring needs.
type App struct {
	// Middleware is the middleware under test.
	Middleware func(http.Handler) http.Handler

	mu      sync.Mutex
	effects map[string]int
	entered chan struct{} // receives one value for each Hold
	release chan struct{} // closed when Hold may return
}

// Add records an effect.
func (a *App) Add(effect string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.effects[effect]++
}

// Hold keeps a handler running until the test lets it go.
func (a *App) Hold() {
	a.entered <- struct{}{}
	<-a.release
}

func (a *App) count(effect string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.effects[effect]
}
