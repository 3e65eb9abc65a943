package main

import (
	"encoding/json"
	"net/http"
	"sync"
)

// An OrderRequest is the body of an order's request.
type OrderRequest struct {
	Article string `json:"article"`
	Pieces  int    `json:"pieces"`
}

// An Order is the body of the response.
type Order struct {
	Number int `json:"number"`
	Copy   int `json:"copy"` // the copy of the service that made it
}

// orders is the effect that both copies write. It numbers each order, and refuses nothing.
type orders struct {
	mu   sync.Mutex
	last int
}

// handler is that of a copy of the service. It knows nothing of retries.
func (o *orders) handler(number int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in OrderRequest
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Pieces < 1 {
			http.Error(w, "the body is no order", http.StatusUnprocessableEntity)
			return
		}
		o.mu.Lock()
		o.last++
		made := Order{Number: o.last, Copy: number}
		o.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(made) // a client that is gone repeats the request
	})
}

func (o *orders) made() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}
