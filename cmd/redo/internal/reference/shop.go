package reference

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redo-go/redo/servertest"
)

// These headers trigger the variants that targets declare.
const (
	headerSlow    = "X-Slow"    // a duration: it waits before its effect
	headerFault   = "X-Fault"   // 500, 429 or crash: it fails before its effect
	headerInterim = "X-Interim" // any: it sends a 103 first
)

// A shop makes one effect for each order that it accepts.
type shop struct {
	mux    *http.ServeMux
	opened chan struct{} // closed when ledger is there
	ledger *servertest.Ledger

	mu      sync.Mutex
	byOwner map[string]int // effects by account
}

func newShop() *shop {
	s := &shop{mux: http.NewServeMux(), opened: make(chan struct{}), byOwner: map[string]int{}}
	for _, route := range []string{"POST /orders", "PATCH /orders", "POST /refunds", "POST /empty", "POST /large",
		"POST /short"} {
		s.mux.HandleFunc(route, s.order)
	}
	s.mux.HandleFunc("GET /orders", s.effects)
	s.mux.HandleFunc("QUERY /orders", s.effects)
	s.mux.HandleFunc("GET /effects", s.effects)
	s.mux.HandleFunc("GET /config", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"idempotency-key-lifetime": "P1D"}) // the middleware's default
	})
	s.mux.HandleFunc("GET /requests", s.requests)
	return s
}

// open gives the shop the ledger of the server in front of it.
func (s *shop) open(l *servertest.Ledger) {
	s.ledger = l
	close(s.opened)
}

// ServeHTTP implements http.Handler.
func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case <-s.opened:
		s.mux.ServeHTTP(w, r)
	case <-r.Context().Done():
	}
}

type order struct {
	Account string `json:"account"`
	Item    string `json:"item"`
	Amount  int    `json:"amount"`
}

func (s *shop) order(w http.ResponseWriter, r *http.Request) {
	var o order
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil || o.Amount < 1 {
		http.Error(w, `an order is a JSON object whose "amount" is a positive whole number`, http.StatusBadRequest)
		return
	}
	switch r.Header.Get(headerFault) {
	case "500":
		http.Error(w, "the bank is down", http.StatusInternalServerError)
		return
	case "429":
		w.Header().Set("Retry-After", "0")
		http.Error(w, "too many orders", http.StatusTooManyRequests)
		return
	case "crash":
		panic(http.ErrAbortHandler)
	}
	if d, err := time.ParseDuration(r.Header.Get(headerSlow)); err == nil && !pause(r, d) {
		http.Error(w, "given up", http.StatusServiceUnavailable)
		return
	}
	if r.Header.Get(headerInterim) != "" {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
	}
	effect, err := servertest.Effect(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.mu.Lock()
	s.byOwner[o.Account]++
	s.mu.Unlock()
	s.respond(w, r, o, effect.ID)
}

// respond writes the response to an order that was made.
func (s *shop) respond(w http.ResponseWriter, r *http.Request, o order, id string) {
	switch r.URL.Path {
	case "/empty":
		w.WriteHeader(http.StatusNoContent)
		return
	case "/large":
		_, _ = w.Write([]byte(strings.Repeat("0123456789abcdef", 1<<16))) // the client may have gone
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Location", r.URL.Path+"/"+id)
	h.Set("ETag", strconv.Quote(id))
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]any{"id": id, "item": o.Item, "amount": o.Amount}) // as above
}

// pause waits, and reports whether the request is still wanted then.
func pause(r *http.Request, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// effects counts by account or by key; without either it counts all.
func (s *shop) effects(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	var n int
	switch {
	case q.Has("account"):
		s.mu.Lock()
		n = s.byOwner[q.Get("account")]
		s.mu.Unlock()
	case q.Has("key"):
		n = s.ledger.Effects(q.Get("key"))
	default:
		n = s.ledger.Total()
	}
	count(w, n)
}

// requests counts the requests with a key, also those that failed.
func (s *shop) requests(w http.ResponseWriter, r *http.Request) {
	count(w, s.ledger.Requests(r.URL.Query().Get("key")))
}

func count(w http.ResponseWriter, n int) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, "{\"count\":%d}\n", n)
}
