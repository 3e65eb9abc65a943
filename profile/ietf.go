package profile

import (
	"net/http"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/taxonomy"
)

// IETF describes an API that follows draft-ietf-httpapi-idempotency-key-header-07. The key is a structured-field
// string, in quotes (section 2.1). A 422 reports another payload, and a 409 a request that is still running (section
// 2.7). The draft leaves the retention to the API (section 2.3): set the published one.
//
// Source: https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-idempotency-key-header-07
var IETF = redo.Profile{
	Name:   "ietf",
	Quoted: true,
	Statuses: map[int]taxonomy.Code{
		http.StatusUnprocessableEntity: taxonomy.PayloadMismatch,
		http.StatusConflict:            taxonomy.InFlight,
	},
}
