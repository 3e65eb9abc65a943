package readme

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/redo-go/redo/conformance"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store/memstore"
)

var ordered atomic.Int64

// handler is a service that a team would hold to the rules.
var (
	once    = server.Middleware(memstore.New(), server.Required(), server.SharedKeys())
	handler = once(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id":%d}`, ordered.Add(1))
	}))
)

func TestIdempotency(t *testing.T) {
	servertest.Check(t, handler, conformance.Target{
		Operation: conformance.Operation{Method: "POST", Path: "/orders", Body: `{"item":"{{payload}}"}`},
		Effects:   &conformance.Effects{ResponseID: "id"},
	})
}
