package profile

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/taxonomy"
)

// Shopify describes the GraphQL Admin API. The key is an argument of the mutation's @idempotent directive, or its
// idempotencyKey: put the operation's key there. Shopify tracks a key for 24 hours. Errors come with status 200. The
// user error IDEMPOTENCY_CONCURRENT_REQUEST reports a request that is still running, and
// IDEMPOTENCY_KEY_PARAMETER_MISMATCH other parameters; the error THROTTLED is a rate limit. The caller reads all
// other user errors. The length of a key and a mark of a replay are not documented.
//
// Source: https://shopify.dev/docs/api/usage/idempotent-requests
// Source: https://shopify.dev/docs/api/usage/implementing-idempotency
// Source: https://shopify.dev/docs/api/admin-graphql/latest/enums/inventorymovequantitiesusererrorcode
// Source: https://community.shopify.com/t/throttled/254776
var Shopify = redo.Profile{
	Name:       "shopify",
	KeyInBody:  true,
	Retention:  24 * time.Hour,
	Methods:    []string{http.MethodPost},
	Classifier: graphQLErrors,
}

// A graphQLResponse is the part of a GraphQL response that reports errors.
type graphQLResponse struct {
	Data   map[string]json.RawMessage
	Errors []struct {
		Extensions struct{ Code string }
	}
}

// graphQLErrors classifies a success whose body reports an error.
func graphQLErrors(_ *http.Response, body []byte, v taxonomy.Verdict) taxonomy.Verdict {
	var response graphQLResponse
	if v.Class != taxonomy.ClassSuccess || json.Unmarshal(body, &response) != nil {
		return v
	}
	for _, e := range response.Errors {
		if e.Extensions.Code == "THROTTLED" && len(response.Data) == 0 {
			limited := taxonomy.Verdict{Code: taxonomy.RateLimited, Class: taxonomy.ClassTransient, Said: true}
			limited.Effect = taxonomy.NotApplied
			return limited
		}
	}
	for _, mutation := range response.Data {
		var result struct{ UserErrors []struct{ Code string } }
		_ = json.Unmarshal(mutation, &result) // a value of another form has no such errors
		for _, e := range result.UserErrors {
			switch e.Code {
			case "IDEMPOTENCY_CONCURRENT_REQUEST":
				v = taxonomy.Verdict{Code: taxonomy.InFlight, Class: taxonomy.ClassTransient, Said: true}
			case "IDEMPOTENCY_KEY_PARAMETER_MISMATCH":
				mismatch := taxonomy.Verdict{Code: taxonomy.PayloadMismatch, Said: true}
				if len(response.Data) == 1 { // another mutation of the request may have been applied
					mismatch.Effect = taxonomy.NotApplied
				}
				return mismatch
			}
		}
	}
	return v
}
