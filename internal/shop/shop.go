// Package shop is the application behind the reference servers. It makes one effect for each order. Headers of a
// request select the behaviours that a conformance target can declare.
package shop

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// These headers of a request select a behaviour.
const (
	HeaderSlow    = "X-Slow"    // a duration: the shop waits before the effect
	HeaderFault   = "X-Fault"   // 500, 429 or crash: the shop fails before the effect
	HeaderInterim = "X-Interim" // any value: the shop sends a 103 first
)

// Order is the JSON body of a request. The amount must be positive.
type Order struct {
	Account string `json:"account"`
	Item    string `json:"item"`
	Amount  int    `json:"amount"`
}

// Shop is a handler of orders. The path /empty gets 204, the path /large gets 1 MiB, and every other path gets 201 with
// the order. A Shop may be used concurrently if Effect may.
type Shop struct {
	// Effect makes the effect of an order and returns the ID of the result. After an error the response is 500.
	Effect func(r *http.Request, o Order) (id string, err error)
}

// ServeHTTP implements http.Handler.
func (s Shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var o Order
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil || o.Amount < 1 {
		http.Error(w, `an order is a JSON object whose "amount" is a positive whole number`, http.StatusBadRequest)
		return
	}
	switch r.Header.Get(HeaderFault) {
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
	if d, err := time.ParseDuration(r.Header.Get(HeaderSlow)); err == nil && !pause(r, d) {
		http.Error(w, "the client has gone", http.StatusServiceUnavailable)
		return
	}
	if r.Header.Get(HeaderInterim) != "" {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
	}
	id, err := s.Effect(r, o)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	respond(w, r, o, id)
}

// respond writes the response to an order with an effect.
func respond(w http.ResponseWriter, r *http.Request, o Order, id string) {
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
	h["X-Part"] = []string{"one", "two"} // a replay has two lines too
	h.Set("Set-Cookie", "session="+id)   // a replay never has it
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]any{"id": id, "item": o.Item, "amount": o.Amount}) // as above
}

// pause waits, and reports whether the request is still live then.
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
