package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/redo-go/redo/internal/wire"
)

// Defaults of the options.
const (
	DefaultTolerance = 5 * time.Minute
	DefaultMaxBody   = 1 << 20 // bytes
)

// An Option changes how a Signer or a Verifier works. If two options set the same value, the later one counts.
type Option interface {
	SignerOption
	VerifierOption
}

// A SignerOption changes how a Signer works.
type SignerOption interface{ applySigner(*config) }

// A VerifierOption changes how a Verifier works.
type VerifierOption interface{ applyVerifier(*config) }

// Tolerance sets the largest difference between a timestamp and the verifier's clock, in both directions. The default
// is 5 minutes. Whole seconds count, and it must be at least one. A longer tolerance gives a copied delivery more time
// to be sent again.
func Tolerance(d time.Duration) VerifierOption {
	return verifierOption(func(c *config) { c.tolerance = d })
}

// MaxBody sets the largest size of a body, in bytes. The default is 1 MiB. A verifier reads no longer body, and a
// signer signs none. Zero allows only empty bodies.
func MaxBody(n int) Option { return option(func(c *config) { c.maxBody = n }) }

// KeyHeader sets the name of the request header from which [Signer.Transport] takes the id if the request has no
// webhook-id. The default is Idempotency-Key. It is the header in which the client above sends its keys. For the redo
// client, that is the Header of its profile. NewSigner refuses a name that is not a header name, or that carries
// credentials or has another meaning in HTTP.
func KeyHeader(name string) SignerOption {
	return signerOption(func(c *config) { c.keyHeader = name })
}

// Refused calls f for each delivery that [Verifier.Handler] refuses, before the response is written. Use it to log
// and to count refusals: an error with [ErrTooOld] or [ErrTooNew] shows that a clock is wrong. The request is not
// authenticated, so anybody can cause calls. f must be safe for concurrent use, and must not read the body. By
// default refusals show only in the response.
func Refused(f func(r *http.Request, err error)) VerifierOption {
	return verifierOption(func(c *config) { c.refused = f })
}

// Clock sets the clock of [Verifier.Verify], [Verifier.Handler] and [Signer.Transport]. The default is time.Now. It
// must be safe for concurrent use.
func Clock(now func() time.Time) Option { return option(func(c *config) { c.now = now }) }

type option func(*config)

func (o option) applySigner(c *config)   { o(c) }
func (o option) applyVerifier(c *config) { o(c) }

type signerOption func(*config)

func (o signerOption) applySigner(c *config) { o(c) }

type verifierOption func(*config)

func (o verifierOption) applyVerifier(c *config) { o(c) }

// config holds the values of the options.
type config struct {
	tolerance time.Duration
	maxBody   int
	now       func() time.Time
	keyHeader string
	refused   func(*http.Request, error)
}

func defaults() config {
	return config{
		tolerance: DefaultTolerance, maxBody: DefaultMaxBody, now: time.Now, keyHeader: wire.HeaderKey,
		refused: func(*http.Request, error) {},
	}
}

var errNilOption = errors.New("webhook: an option is nil")

// validate returns an error for each wrong value.
func (c *config) validate() error {
	var found []error
	if c.tolerance < time.Second {
		found = append(found, fmt.Errorf("webhook: option Tolerance: %v is less than a second", c.tolerance))
	}
	if c.maxBody < 0 {
		found = append(found, fmt.Errorf("webhook: option MaxBody: %d is negative", c.maxBody))
	}
	if c.refused == nil {
		found = append(found, errors.New("webhook: option Refused: the function must not be nil"))
	}
	if c.now == nil {
		found = append(found, errors.New("webhook: option Clock: the function must not be nil"))
	}
	if err := wire.CheckKeyHeader(c.keyHeader); err != nil {
		found = append(found, fmt.Errorf("webhook: option KeyHeader: %w", err))
	}
	return errors.Join(found...)
}
