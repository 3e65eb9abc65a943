package taxonomy

// sharedCodes maps the documented words of providers to codes. Each word has a public source, and a response in
// testdata/providers.json. A word with different meanings among providers has the safest one here, or is absent.
// The provider's own meaning then belongs in Answer.Codes.
//
// A word that only means "used before" is OutcomeUnknown: the earlier request may have been the same operation.
var sharedCodes = map[string]Code{
	// Stripe: docs.stripe.com/error-codes and docs.stripe.com/api/errors. Some other APIs have
	// idempotency_key_in_use for a mismatch; to wait is the safer meaning. The CDP API of Coinbase has
	// idempotency_error as errorType: docs.cdp.coinbase.com/api-reference/payment-apis/conventions.
	"idempotency_error":      PayloadMismatch,
	"idempotency_key_in_use": InFlight,

	// PayPal: developer.paypal.com, the errors of Payments v1 and Payment Method Tokens v3; and
	// github.com/paypal/paypal-rest-api-specifications, payments_payment_v2.json and checkout_orders_v2.json.
	"DUPLICATE_REQUEST_ID":              OutcomeUnknown,
	"PAYPAL_REQUEST_ID_PREVIOUSLY_USED": PayloadMismatch,
	"PAYPAL_REQUEST_ID_REQUIRED":        KeyMissing,
	"PREVIOUS_REQUEST_IN_PROGRESS":      InFlight,

	// Square: developer.squareup.com/reference/square/enums/ErrorCode and ErrorCategory. PayFacto has the same
	// word. AdCP and Klarna have RATE_LIMITED too.
	"IDEMPOTENCY_KEY_REUSED": PayloadMismatch,
	"RATE_LIMITED":           RateLimited,
	"RATE_LIMIT_ERROR":       RateLimited,

	// Adyen: docs.adyen.com/development-resources/api-idempotency. "request already processed or in progress".
	adyenErrorCode + "704": InFlight,

	// AWS: the exceptions in docs.aws.amazon.com/botocore/latest/reference/services, here of imagebuilder, ec2,
	// autoscaling, s3 and dynamodb.
	"IdempotentParameterMismatch":          PayloadMismatch,
	"IdempotentParameterMismatchException": PayloadMismatch,
	"IdempotentParameterMismatchError":     PayloadMismatch,
	"IdempotencyParameterMismatch":         PayloadMismatch,
	"TransactionInProgressException":       InFlight,
	// AWS: throttling and timeouts, docs.aws.amazon.com/boto3/latest/guide/retries.html.
	"Throttling":                             RateLimited,
	"ThrottlingException":                    RateLimited,
	"ThrottledException":                     RateLimited,
	"RequestThrottled":                       RateLimited,
	"RequestThrottledException":              RateLimited,
	"TooManyRequestsException":               RateLimited,
	"ProvisionedThroughputExceededException": RateLimited,
	"RequestLimitExceeded":                   RateLimited,
	"SlowDown":                               RateLimited,
	"RequestTimeout":                         Timeout,
	"RequestTimeoutException":                Timeout,

	// Google APIs: google.rpc.Code, and the reasons of older JSON errors. A deadline can pass after the operation
	// was applied.
	"RESOURCE_EXHAUSTED":    RateLimited,
	"DEADLINE_EXCEEDED":     Timeout,
	"rateLimitExceeded":     RateLimited,
	"userRateLimitExceeded": RateLimited,

	// OpenAI: developers.openai.com, error codes. Anthropic: docs.anthropic.com/en/api/errors.
	"rate_limit_exceeded":  RateLimited,
	"rate_limit_error":     RateLimited,
	"server_is_overloaded": Unavailable,
	"overloaded_error":     Unavailable,

	// Increase: increase.com/documentation/idempotency-keys, and the ErrorType of its SDKs.
	"idempotency_key_already_used_error": PayloadMismatch,
	"rate_limited_error":                 RateLimited,

	// GoCardless: developer.gocardless.com/api-reference, errors: the resource exists already.
	"idempotent_creation_conflict": Duplicate,

	// Mercado Pago: the errors of its Orders API. The page does not compare payloads.
	"idempotency_key_already_used": OutcomeUnknown,

	// Echo Pro: echo.labstack.com/pro/problems. A result that is gone is no proof of an effect, or of none.
	"idempotency_key_missing":      KeyMissing,
	"idempotency_key_invalid":      KeyMalformed,
	"idempotency_key_reused":       PayloadMismatch,
	"operation_in_progress":        InFlight,
	"operation_uncertain":          OutcomeUnknown,
	"operation_disputed":           OutcomeUnknown,
	"operation_abandoned":          OutcomeUnknown,
	"operation_policy_changed":     OutcomeUnknown,
	"operation_result_expired":     OutcomeUnknown,
	"operation_result_unavailable": OutcomeUnknown,
	"operation_not_applied":        ConflictState,

	// ACP, the Agentic Commerce Protocol: github.com/agentic-commerce-protocol, rfc.agentic_checkout.md.
	// request_not_idempotent is the type of its version 2025-09-29 for any violation of idempotency.
	"idempotency_key_required": KeyMissing,
	"idempotency_conflict":     PayloadMismatch,
	"idempotency_in_flight":    InFlight,
	"request_not_idempotent":   OutcomeUnknown,

	// AdCP, the Ad Context Protocol: github.com/adcontextprotocol/adcp, enums/error-code.json.
	"IDEMPOTENCY_CONFLICT":  PayloadMismatch,
	"IDEMPOTENCY_EXPIRED":   KeyExpired,
	"IDEMPOTENCY_IN_FLIGHT": InFlight,

	// Sinch: its type ends like ACP's word and means the opposite, so it is known by its whole URI.
	"https://developers.sinch.com/docs/errors/registry/idempotency-conflict": InFlight,

	// Upvest: docs.upvest.co/errors/missing_idempotency_key.
	"missing_idempotency_key": KeyMissing,

	// Valara: docs.valara.cloud/api-reference/errors. Whop: docs.whop.com/developer/api/idempotency.
	"idempotency_key_conflict":    PayloadMismatch,
	"idempotency_key_in_progress": InFlight,
	"idempotency_key_mismatch":    PayloadMismatch,
}
