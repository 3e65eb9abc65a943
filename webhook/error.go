package webhook

import (
	"errors"
	"time"

	"github.com/redo-go/redo/taxonomy"
)

// An Error reports the header of a delivery that is wrong, and the reason. It contains nothing that helps to forge one.
type Error struct {
	// Header is the header's name as the sender writes it, such as webhook-id or svix-id.
	Header string
	// Reason is one of ErrMissing, ErrMalformed, ErrTooOld, ErrTooNew, ErrUnknownVersion and ErrNoMatch. errors.Is
	// finds it.
	Reason error
	// Skew is the timestamp minus the verifier's clock, for ErrTooOld and ErrTooNew. It is negative for ErrTooOld, and
	// zero for all other reasons.
	Skew time.Duration

	detail string
}

// Error implements error.
func (e *Error) Error() string { return "webhook: " + e.text() }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Reason }

// text returns the message without the package's name.
func (e *Error) text() string {
	why := e.Reason.Error()
	if r, ok := errors.AsType[reason](e.Reason); ok {
		why = string(r)
	}
	if e.detail != "" {
		return e.Header + " " + why + ": " + e.detail
	}
	return e.Header + " " + why
}

// A reason is a predicate of a header.
type reason string

func (r reason) Error() string { return "webhook: a header " + string(r) }

// Reasons of an [Error], for errors.Is.
var (
	// ErrMissing: the header was not sent.
	ErrMissing error = reason("is missing")
	// ErrMalformed: the header can't be parsed.
	ErrMalformed error = reason("is malformed")
	// ErrTooOld: the timestamp is further in the past than the tolerance allows.
	ErrTooOld error = reason("is too old")
	// ErrTooNew: the timestamp is further in the future than the tolerance allows.
	ErrTooNew error = reason("is too new")
	// ErrUnknownVersion: no signature has a version that the verifier's secrets cover.
	ErrUnknownVersion error = reason("has no signature of a version that is verified here")
	// ErrNoMatch: no signature was made with one of the secrets over this id, timestamp and body.
	ErrNoMatch error = reason("matches no secret")
)

// Errors that are not about one header, for errors.Is.
var (
	// ErrSecret: a secret can't be parsed, or can't be used for this purpose.
	ErrSecret = errors.New("webhook: secret refused")
	// ErrSecretsUnavailable: the secrets of a request can't be found now. See [SecretsFunc].
	ErrSecretsUnavailable = errors.New("webhook: secrets unavailable")
	// ErrTooLarge: the body has more bytes than MaxBody allows.
	ErrTooLarge = errors.New("webhook: body too large")
	// ErrBody: the body can't be read, or does not have the length that its request states.
	ErrBody = errors.New("webhook: body unreadable")
	// ErrRedirected: a redirect leads to another host, for which nothing is signed.
	ErrRedirected = errors.New("webhook: redirected to another host")
)

// Codes of errors and responses, in addition to those of package taxonomy.
const (
	// Unsigned: a request can't be signed as it is. It is not sent, and a retry would not help.
	Unsigned taxonomy.Code = "CONFIGURATION.unsigned"
	// SigningUnavailable: a secret or a [KeySigner] can't be reached. The request is not sent, and a retry may help.
	SigningUnavailable taxonomy.Code = "DEPENDENCY.unavailable.signing"
	// ClockSkew: the timestamp and the verifier's clock differ by more than the tolerance. Each attempt has a new
	// timestamp, so a retry helps once the wrong clock is set.
	ClockSkew taxonomy.Code = "TRANSIENT.clock_skew"
)

func wrong(header string, why error, detail string) error {
	return &Error{Header: header, Reason: why, detail: detail}
}
