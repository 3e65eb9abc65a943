package profile

import (
	"net/http"
	"time"

	"github.com/redo-go/redo"
)

// PayPal describes the PayPal REST APIs. The key of a POST is in PayPal-Request-Id. Payment tokens v3 keep it for 3
// hours, orders v2 for 6 hours, subscriptions and catalogs for 72 hours, payouts for 30 days, and payments v2 for 45
// days. Payments v1 take 78 characters, and orders v2 take 108. The profile has the shortest of each: set those of
// your API. The issue PREVIOUS_REQUEST_IN_PROGRESS reports a request that is still running. A repetition returns the
// latest status of the first request, with no mark. PayPal-Auth-Assertion names a merchant and is not stored: put the
// merchant into the operation's name.
//
// Source: https://developer.paypal.com/reference/guidelines/idempotency
// Source: https://github.com/paypal/paypal-rest-api-specifications/tree/main/openapi
var PayPal = redo.Profile{
	Name:      "paypal",
	Header:    "PayPal-Request-Id",
	Verbatim:  true,
	MaxKey:    78,
	Retention: 3 * time.Hour,
	Methods:   []string{http.MethodPost},
}
