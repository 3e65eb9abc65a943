package servertest

import (
	"encoding/json"
	"net/http"

	"github.com/redo-go/redo/internal/wire"
)

// refunds is the service of a server without [Handler]. It makes one effect for each request with an unsafe method
// and responds with 201 and the effect's id. It responds to a safe method with 204 and makes no effect.
func refunds(w http.ResponseWriter, r *http.Request) {
	if wire.SafeMethod(r.Method) {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if r.Context().Err() != nil {
		// The client has given the request up. With this refusal the ledger stays right: a canceled handler made no
		// effect.
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
	}{effect.ID}) // the client may be gone; the effect remains
}
