package webhook

import "errors"

// An Error says which header of a delivery is wrong, and why. It holds nothing that would help to forge one.
type Error struct {
	// Header is the header's name as the specification writes it, such as webhook-id.
	Header string
	// Reason is one of ErrMissing, ErrMalformed, ErrTooOld, ErrTooNew, ErrUnknownVersion and ErrNoMatch; errors.Is
	// finds it.
	Reason error

	detail string
}

// Error implements error.
func (e *Error) Error() string { return "webhook: " + e.text() }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Reason }

// text is the message without the package's name.
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

// Reasons of an [Error], to be found with errors.Is.
var (
	// ErrMissing: the header is not there.
	ErrMissing error = reason("is missing")
	// ErrMalformed: the header can't be read.
	ErrMalformed error = reason("is malformed")
	// ErrTooOld: the timestamp lies further back than the tolerance allows.
	ErrTooOld error = reason("is too old")
	// ErrTooNew: the timestamp lies further ahead than the tolerance allows.
	ErrTooNew error = reason("is too new")
	// ErrUnknownVersion: no signature is of a version that the verifier's secrets cover.
	ErrUnknownVersion error = reason("has no signature of a version that is verified here")
	// ErrNoMatch: no signature was made with one of the secrets over this id, timestamp and body.
	ErrNoMatch error = reason("matches no secret")
)

// Errors that are not about one header, to be found with errors.Is.
var (
	// ErrSecret: a secret can't be read, or is not fit for what it is given for.
	ErrSecret = errors.New("webhook: secret refused")
	// ErrTooLarge: the body has more bytes than MaxBody allows.
	ErrTooLarge = errors.New("webhook: body too large")
	// ErrBody: the body can't be read, or is not as long as its request says.
	ErrBody = errors.New("webhook: body unreadable")
	// ErrRedirected: a redirect leads to another host, for which nothing is signed.
	ErrRedirected = errors.New("webhook: redirected to another host")
)

func wrong(header string, why error, detail string) error {
	return &Error{Header: header, Reason: why, detail: detail}
}
