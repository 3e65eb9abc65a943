// Package wire holds what client and server must agree on byte for byte: header names, the syntax of the
// Idempotency-Key, problem documents, bodies, stored responses, and the hints a server gives about when to come back.
// It imports the standard library alone.
package wire

// Header names, in canonical form.
const (
	HeaderKey            = "Idempotency-Key"
	HeaderStatus         = "Idempotency-Status"
	HeaderReplayed       = "Idempotent-Replayed"
	HeaderErrorCode      = "Error-Code"
	HeaderRequestTimeout = "X-Request-Timeout" // milliseconds that the client will still wait
	HeaderRetryAfter     = "Retry-After"
)

// Values of Idempotency-Status.
const (
	StatusStored   = "stored"
	StatusReplayed = "replayed"
)
