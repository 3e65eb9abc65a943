package profile

import (
	"net/http"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/taxonomy"
)

// CheckoutCom describes the Checkout.com API. The key of a payment request is in Cko-Idempotency-Key and expires
// after 24 hours. Only a 2xx is kept: a request that failed is attempted again. A 409, in other places of the
// documentation a 429, reports a request that is still running. The profile takes both for it, so a rate limit's 429
// is no proof that nothing was applied. Checkout.com recommends to wait at least 30 seconds, which exceeds redo's
// default MaxElapsed. Neither the length of a key, nor a mark of a replay, nor a check of the payload is documented.
//
// Source: https://www.checkout.com/docs/payments/manage-payments/idempotency
// Source: https://support.checkout.com/hc/en-us/articles/26763450855186-Duplicate-payment-request-responses
var CheckoutCom = redo.Profile{
	Name:      "checkoutcom",
	Header:    "Cko-Idempotency-Key",
	Verbatim:  true,
	Retention: 24 * time.Hour,
	Methods:   []string{http.MethodPost},
	Statuses: map[int]taxonomy.Code{
		http.StatusConflict:        taxonomy.InFlight,
		http.StatusTooManyRequests: taxonomy.InFlight,
	},
}
