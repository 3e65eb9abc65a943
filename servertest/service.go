package servertest

import (
	"encoding/json"
	"net/http"
)

// refunds is the service behind a server without [Handler]: every request with an unsafe method is one effect, answered
// 201 with its id, and safe ones make none.
func refunds(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if r.Context().Err() != nil {
		// Whoever asked for it has given it up: refusing keeps the ledger's word that a canceled handler did nothing.
		http.Error(w, http.StatusText(http.StatusServiceUnavailable), http.StatusServiceUnavailable)
		return
	}
	effect, err := Effect(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(struct {
		ID string `json:"id"`
	}{effect.ID}) // the client may have gone; the effect stands
}
