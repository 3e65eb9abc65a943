package webhook

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redo-go/redo/internal/wire"
)

// Defaults of the options.
const (
	DefaultTolerance = 5 * time.Minute
	DefaultMaxBody   = 1 << 20 // bytes
)

// An Option sets what signers and verifiers have in common. Of two options that set the same thing the later one wins.
type Option interface {
	SignerOption
	VerifierOption
}

// A SignerOption changes how a Signer works.
type SignerOption interface{ applySigner(*config) }

// A VerifierOption changes how a Verifier works.
type VerifierOption interface{ applyVerifier(*config) }

// Tolerance is how far a timestamp may lie from the verifier's clock, back or ahead; the default is 5 minutes. Whole
// seconds count, and it must be at least one. A longer one lets somebody who saw a delivery send it again for longer.
func Tolerance(d time.Duration) VerifierOption {
	return verifierOption(func(c *config) { c.tolerance = d })
}

// MaxBody is how many bytes a body may have; the default is 1 MiB. A verifier reads no more, and a signer signs no
// longer one. Zero allows only empty bodies.
func MaxBody(n int) Option { return option(func(c *config) { c.maxBody = n }) }

// KeyHeader sets the name of the request header that [Signer.Transport] takes the id from if the request has no
// webhook-id. The default is Idempotency-Key. It is the header in which the client above sends its keys: for the redo
// client, the Header of its profile. NewSigner refuses a name that is not a header name, or that carries credentials or
// has another meaning in HTTP.
func KeyHeader(name string) SignerOption {
	return signerOption(func(c *config) { c.keyHeader = name })
}

// Clock replaces time.Now, for [Verifier.Verify], [Verifier.Handler] and [Signer.Transport]. It must be safe for
// concurrent use.
func Clock(now func() time.Time) Option { return option(func(c *config) { c.now = now }) }

type option func(*config)

func (o option) applySigner(c *config)   { o(c) }
func (o option) applyVerifier(c *config) { o(c) }

type signerOption func(*config)

func (o signerOption) applySigner(c *config) { o(c) }

type verifierOption func(*config)

func (o verifierOption) applyVerifier(c *config) { o(c) }

// config is what the options set.
type config struct {
	tolerance time.Duration
	maxBody   int
	now       func() time.Time
	keyHeader string
}

func defaults() config {
	return config{tolerance: DefaultTolerance, maxBody: DefaultMaxBody, now: time.Now, keyHeader: wire.HeaderKey}
}

var errNilOption = errors.New("webhook: an option is nil")

// validate names every wrong value.
func (c *config) validate() error {
	var found []error
	if c.tolerance < time.Second {
		found = append(found, fmt.Errorf("webhook: option Tolerance: %v is less than a second", c.tolerance))
	}
	if c.maxBody < 0 {
		found = append(found, fmt.Errorf("webhook: option MaxBody: %d is negative", c.maxBody))
	}
	if c.now == nil {
		found = append(found, errors.New("webhook: option Clock: the function must not be nil"))
	}
	if err := wire.CheckKeyHeader(c.keyHeader); err != nil {
		found = append(found, fmt.Errorf("webhook: option KeyHeader: %w", err))
	}
	return errors.Join(found...)
}

// check copies the secrets, once it is known that there are some and that each is fit.
func check(secrets []Secret, fit func(kind) bool) ([]Secret, error) {
	if len(secrets) == 0 {
		return nil, refused("there is none")
	}
	if len(secrets) > MaxSignatures {
		return nil, refused("there are %d, at most %d are allowed", len(secrets), MaxSignatures)
	}
	for i, s := range secrets {
		switch {
		case s.IsZero():
			return nil, refused("number %d of them is the zero Secret", i)
		case !fit(s.open().kind):
			return nil, refused("number %d of them, %v, can't sign", i, s)
		}
	}
	return slices.Clone(secrets), nil
}
