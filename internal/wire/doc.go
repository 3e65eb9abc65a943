// Package wire holds the HTTP rules that client and server share: header names, methods, the syntax of keys, problem
// documents, stored responses, and hints of when to retry. Both sides must apply them byte for byte alike. The
// package imports only the standard library. All its functions are safe for concurrent use.
package wire

// Header names, in canonical form.
const (
	HeaderKey            = "Idempotency-Key"
	HeaderStatus         = "Idempotency-Status"
	HeaderReplayed       = "Idempotent-Replayed"
	HeaderErrorCode      = "Error-Code"
	HeaderRequestTimeout = "X-Request-Timeout" // the client's remaining time, in milliseconds
	HeaderRetryAfter     = "Retry-After"
)

// Values of Idempotency-Status.
const (
	StatusStored   = "stored"
	StatusReplayed = "replayed"
)
