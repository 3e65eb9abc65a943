package webhook

import (
	"fmt"
	"net/http"
	"slices"
)

// A SecretsFunc returns the secrets of one request: of its destination for a [Signer], and of its source for a
// [Verifier]. It is called for each request, so that a changed secret counts without a restart. To save work, it
// returns Secrets that were parsed before. It must be safe for concurrent use.
//
// It must neither change the request nor read its body. It finds the destination or source in the URL, the Host, a path
// value or the context. The request's headers are not verified.
//
// An error means that the secrets can't be found now. A Signer sends nothing then, and the request may be retried; an
// error that matches [ErrSecret] is final. A Verifier's Handler responds with 503.
//
// No secrets and no error mean that the destination or source is unknown. A Signer refuses the request with
// [ErrSecret], and a Verifier with [ErrNoMatch].
type SecretsFunc func(r *http.Request) ([]Secret, error)

// find calls the function. Its error matches ErrSecret or ErrSecretsUnavailable.
func (f SecretsFunc) find(r *http.Request) ([]Secret, error) {
	if f == nil {
		return nil, errNilSource
	}
	secrets, err := f(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSecretsUnavailable, err)
	}
	return secrets, nil
}

// errNilSource reports a constructor without its function.
var errNilSource = refused("the SecretsFunc is nil")

// A use is the purpose that secrets are checked for.
type use struct {
	fit func(kind) bool
	not string // reported of a secret that is not fit
}

var (
	signing   = use{kind.signs, "can't sign"}
	verifying = use{kind.verifies, "can't verify"}
)

// check refuses an empty list, and a list with a secret that is not fit for its use.
func check(secrets []Secret, u use) error {
	if len(secrets) == 0 {
		return refused("there is none")
	}
	if len(secrets) > MaxSignatures {
		return refused("there are %d, at most %d are allowed", len(secrets), MaxSignatures)
	}
	for i, s := range secrets {
		switch {
		case s.IsZero():
			return refused("number %d of them is the zero Secret", i)
		case !u.fit(s.open().kind):
			return refused("number %d of them, %v, %s", i, s, u.not)
		}
	}
	return nil
}

// Fixed returns a SecretsFunc that always returns these secrets.
func Fixed(secrets ...Secret) SecretsFunc {
	secrets = slices.Clone(secrets)
	return func(*http.Request) ([]Secret, error) { return secrets, nil }
}
