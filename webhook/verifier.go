package webhook

import (
	"errors"
	"net/http"
	"slices"
	"time"
)

// A Delivery is a webhook that was verified.
type Delivery struct {
	// ID names the event. It is the same in each attempt to deliver it: deduplicate on it.
	ID string
	// Timestamp is the time of this attempt, in whole seconds, UTC.
	Timestamp time.Time
	// Body is the signed body. The request's body reads the same bytes, so they must not be changed.
	Body []byte
	// Secret is the index of the secret that matched, in the list of the verifier or of its SecretsFunc.
	Secret int
}

// A Verifier verifies that deliveries were signed with one of its secrets. It accepts the headers of Standard Webhooks,
// and those of Svix in their place. [NewVerifier] and [NewVerifierFor] make one; the zero Verifier is not usable.
type Verifier struct {
	secrets []Secret    // never their keys: code that prints by reflection would follow a pointer
	source  SecretsFunc // nil if the secrets are fixed
	config
}

// NewVerifier returns a Verifier that accepts signatures of any of the secrets. It keeps a copy of the list. Its error
// matches ErrSecret, or names each option that is wrong.
func NewVerifier(secrets []Secret, opts ...VerifierOption) (*Verifier, error) {
	v := &Verifier{secrets: slices.Clone(secrets)}
	if err := v.set(check(secrets, verifying), opts); err != nil {
		return nil, err
	}
	return v, nil
}

// NewVerifierFor returns a Verifier that fetches the secrets of each request from secrets, such as those of the
// tenant in its path. It accepts signatures of any of them. Use it through [Verifier.Verify] or
// [Verifier.Handler]: [Verifier.VerifyAt] has no request, and fails. The error names each option that is wrong.
func NewVerifierFor(secrets SecretsFunc, opts ...VerifierOption) (*Verifier, error) {
	v := &Verifier{source: secrets}
	var err error
	if secrets == nil {
		err = errNilSource
	}
	if err := v.set(err, opts); err != nil {
		return nil, err
	}
	return v, nil
}

// set applies the options. Its error includes found.
func (v *Verifier) set(found error, opts []VerifierOption) error {
	v.config = defaults()
	for _, o := range opts {
		if o == nil {
			return errNilOption
		}
		o.applyVerifier(&v.config)
	}
	return errors.Join(found, v.validate())
}

// Verify reads the request's body, up to [MaxBody] bytes, and verifies it. It checks the headers and the age first, and
// reads the body only if they are right. Afterwards r.Body reads the same body from its start, and needs no closing.
//
// The error is an [*Error] about one header, or matches ErrTooLarge, ErrBody or ErrSecretsUnavailable.
func (v *Verifier) Verify(r *http.Request) (Delivery, error) {
	var c claim
	if err := v.readClaim(&c, v.now(), r.Header); err != nil {
		return Delivery{}, err
	}
	secrets := v.secrets
	if v.source != nil {
		var err error
		if secrets, err = v.source.find(r); err != nil {
			return Delivery{}, err
		}
		if len(secrets) == 0 {
			return Delivery{}, wrong(c.set.signature, ErrNoMatch, "")
		}
		if err := check(secrets, verifying); err != nil {
			return Delivery{}, errors.Join(ErrSecretsUnavailable, err)
		}
	}
	if err := c.covered(secrets); err != nil {
		return Delivery{}, err
	}
	body, err := readBody(r, v.maxBody)
	if err != nil {
		return Delivery{}, err
	}
	r.Body = again(body)
	return c.match(secrets, body)
}

// VerifyAt is Verify for a header and a body from another source, such as a queue, and for the time of the caller. The
// keys of the header must be canonical, as http.Header.Set makes them. It does no input or output, and allocates
// nothing for a delivery that a whsec_ secret verifies. It fails with ErrSecret for a Verifier of [NewVerifierFor].
func (v *Verifier) VerifyAt(now time.Time, header http.Header, body []byte) (Delivery, error) {
	if v.source != nil {
		return Delivery{}, refused("the verifier needs a request: use Verify or Handler")
	}
	var c claim
	if err := v.readClaim(&c, now, header); err != nil {
		return Delivery{}, err
	}
	if err := c.covered(v.secrets); err != nil {
		return Delivery{}, err
	}
	if len(body) > v.maxBody {
		return Delivery{}, tooLarge(v.maxBody)
	}
	return c.match(v.secrets, body)
}

// readClaim checks the headers and the age.
func (v *Verifier) readClaim(c *claim, now time.Time, header http.Header) error {
	if err := c.read(header); err != nil {
		return err
	}
	return c.checkAge(now, v.tolerance)
}

// covered returns an error if none of the secrets can verify one of the signatures.
func (c *claim) covered(secrets []Secret) error {
	var versions [3]bool
	for _, s := range secrets {
		versions[s.open().version()] = true
	}
	known, readable := false, false
	for i := range c.signatures() {
		s := &c.list[i]
		if versions[s.version] {
			known = true
			readable = readable || s.readable
		}
	}
	switch {
	case !known:
		return wrong(c.set.signature, ErrUnknownVersion, "")
	case !readable:
		return wrong(c.set.signature, ErrMalformed, "no signature has the length and the base64 of its version")
	}
	return nil
}

// match verifies the body.
func (c *claim) match(secrets []Secret, body []byte) (Delivery, error) {
	m := message{id: c.id, timestamp: c.timestamp, body: body}
	for i, s := range secrets {
		if s.open().matches(&m, c.signatures()) {
			return Delivery{ID: c.id, Timestamp: c.at(), Body: body, Secret: i}, nil
		}
	}
	return Delivery{}, wrong(c.set.signature, ErrNoMatch, "")
}
