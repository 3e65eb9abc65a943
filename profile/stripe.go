package profile

import (
	"net/http"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/taxonomy"
)

// Stripe describes version 1 of the Stripe API. The key is an opaque string of up to 255 characters. Stripe removes
// keys after 24 hours at the earliest. A 409 reports that the first request is still running, and the type
// idempotency_error reports other parameters. A repeated 500 is a replay. Stripe-Should-Retry reports whether to send
// the request again. The account and the version of a request are headers, so they are part of an operation.
//
// Source: https://docs.stripe.com/api/idempotent_requests
// Source: https://docs.stripe.com/error-low-level
// Source: https://docs.stripe.com/api/errors
var Stripe = redo.Profile{
	Name:          "stripe",
	Verbatim:      true,
	Methods:       []string{http.MethodPost},
	Statuses:      map[int]taxonomy.Code{http.StatusConflict: taxonomy.InFlight},
	ShouldRetry:   []string{"Stripe-Should-Retry"},
	StoredHeaders: []string{"Stripe-Version", "Stripe-Account", "Stripe-Context"},
}
