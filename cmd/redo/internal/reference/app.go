package reference

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	"github.com/redo-go/redo/internal/shop"
	"github.com/redo-go/redo/servertest"
)

// app is the shop with its counters.
type app struct {
	mux    *http.ServeMux
	opened chan struct{} // closed once the ledger is set
	ledger *servertest.Ledger

	mu      sync.Mutex
	byOwner map[string]int // effects by account
}

func newApp() *app {
	a := &app{mux: http.NewServeMux(), opened: make(chan struct{}), byOwner: map[string]int{}}
	for _, route := range []string{"POST /orders", "PATCH /orders", "POST /refunds", "POST /empty", "POST /large",
		"POST /short"} {
		a.mux.Handle(route, shop.Shop{Effect: a.effect})
	}
	for _, route := range []string{"GET /orders", "QUERY /orders", "GET /effects"} {
		a.mux.HandleFunc(route, a.effects)
	}
	a.mux.HandleFunc("GET /config", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"idempotency-key-lifetime": "P1D"}) // the middleware's default
	})
	a.mux.HandleFunc("GET /requests", a.requests)
	return a
}

// open gives the app the ledger of the server in front of it.
func (a *app) open(l *servertest.Ledger) {
	a.ledger = l
	close(a.opened)
}

// ServeHTTP implements http.Handler.
func (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case <-a.opened:
		a.mux.ServeHTTP(w, r)
	case <-r.Context().Done():
	}
}

func (a *app) effect(r *http.Request, o shop.Order) (string, error) {
	effect, err := servertest.Effect(r.Context())
	if err != nil {
		return "", err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.byOwner[o.Account]++
	return effect.ID, nil
}

// effects counts by account or by key. Without either it counts all effects.
func (a *app) effects(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	var n int
	switch {
	case q.Has("account"):
		a.mu.Lock()
		n = a.byOwner[q.Get("account")]
		a.mu.Unlock()
	case q.Has("key"):
		n = a.ledger.Effects(q.Get("key"))
	default:
		n = a.ledger.Total()
	}
	count(w, n)
}

// requests counts the requests with a key, also those that failed.
func (a *app) requests(w http.ResponseWriter, r *http.Request) {
	count(w, a.ledger.Requests(r.URL.Query().Get("key")))
}

func count(w http.ResponseWriter, n int) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, "{\"count\":%d}\n", n)
}
