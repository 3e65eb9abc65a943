package profile

import "github.com/redo-go/redo"

// Square describes the Square API. The key is the member idempotency_key of the request's body: put the operation's
// key there. Payments and refunds take up to 45 characters. The code IDEMPOTENCY_KEY_REUSED reports another payload.
// A repetition returns the first response, with no mark. Square publishes no retention, so the profile has redo's
// default. Square documents no code for a request that is still running.
//
// Source: https://developer.squareup.com/docs/build-basics/common-api-patterns/idempotency
// Source: https://github.com/square/connect-api-specification/blob/master/api.json
// Source: https://developer.squareup.com/reference/square/enums/ErrorCode
// Source: https://developer.squareup.com/forums/t/question-about-idempotency-key-on-payments/28309
var Square = redo.Profile{
	Name:          "square",
	KeyInBody:     true,
	MaxKey:        45,
	StoredHeaders: []string{"Square-Version"},
}
