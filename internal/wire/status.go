package wire

import (
	"encoding/json"
	"net/http"
)

// A KeyStatus is the body of a response about what became of a key.
type KeyStatus struct {
	State  string `json:"state"`
	Status int    `json:"status,omitempty"` // of the recorded response
}

// WriteStatus sends s as the response. It must not be cached, and is not to be sniffed for another type.
func WriteStatus(w http.ResponseWriter, s KeyStatus) {
	body, _ := json.Marshal(s) // a string and a number always marshal
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body)
}
