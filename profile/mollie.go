package profile

import (
	"net/http"
	"time"

	"github.com/redo-go/redo"
)

// Mollie describes the Mollie API. The key of a POST is kept for one hour, and a repetition gets the first
// response. Other parameters under the same key get a 400 without a code, so redo reports a bad request. The
// length of a key, a mark of a replay and the response to a request that is still running are not documented.
//
// Source: https://docs.mollie.com/reference/api-idempotency
// Source: https://docs.mollie.com/reference/handling-errors
var Mollie = redo.Profile{
	Name:      "mollie",
	Verbatim:  true,
	Retention: time.Hour,
	Methods:   []string{http.MethodPost},
}
