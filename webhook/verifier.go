package webhook

import (
	"errors"
	"net/http"
	"time"
)

// A Delivery is a webhook that was verified.
type Delivery struct {
	// ID names the event. It is the same in each attempt to deliver it: deduplicate on it.
	ID string
	// Timestamp is when this attempt was made, in whole seconds, UTC.
	Timestamp time.Time
	// Body is what was signed. The request's body reads the same bytes, so they must not be changed.
	Body []byte
	// Secret says which of the verifier's secrets matched, counting from 0.
	Secret int
}

// A Verifier tells deliveries that were signed with one of its secrets from all others. The zero Verifier is not
// usable: see [NewVerifier].
type Verifier struct {
	secrets  []Secret // never their keys: what prints by reflection would follow a pointer
	versions [3]bool
	config
}

// NewVerifier returns a Verifier that accepts what was signed with any of the secrets. It keeps a copy of the list. Its
// error matches ErrSecret, or names each option that is wrong.
func NewVerifier(secrets []Secret, opts ...VerifierOption) (*Verifier, error) {
	v := &Verifier{config: defaults()}
	for _, o := range opts {
		if o == nil {
			return nil, errNilOption
		}
		o.applyVerifier(&v.config)
	}
	var err error
	v.secrets, err = check(secrets, func(kind) bool { return true })
	if err := errors.Join(err, v.validate()); err != nil {
		return nil, err
	}
	for _, s := range v.secrets {
		v.versions[s.open().version()] = true
	}
	return v, nil
}

// Verify reads the request's body, at most [MaxBody] bytes of it, and verifies it. Headers and age are judged first, so
// that a body is read only when it may count. Once the body has been read r.Body reads it again from its start, and it
// needs no closing.
//
// The error is an [*Error] about one header, or matches ErrTooLarge or ErrBody.
func (v *Verifier) Verify(r *http.Request) (Delivery, error) {
	var c claim
	if err := v.judge(&c, v.now(), r.Header); err != nil {
		return Delivery{}, err
	}
	body, err := readBody(r, v.maxBody)
	if err != nil {
		return Delivery{}, err
	}
	r.Body = again(body)
	return v.match(&c, body)
}

// VerifyAt is Verify for headers and a body that were taken from elsewhere, such as a queue or a function's event, and
// by the given clock. The keys of the header must be canonical, as http.Header.Set makes them. It does no input or
// output, and allocates nothing for a delivery that a whsec_ secret verifies.
func (v *Verifier) VerifyAt(now time.Time, header http.Header, body []byte) (Delivery, error) {
	var c claim
	if err := v.judge(&c, now, header); err != nil {
		return Delivery{}, err
	}
	if len(body) > v.maxBody {
		return Delivery{}, tooLarge(v.maxBody)
	}
	return v.match(&c, body)
}

// judge is all that can be said without the body.
func (v *Verifier) judge(c *claim, now time.Time, header http.Header) error {
	if err := c.read(header); err != nil {
		return err
	}
	if err := c.checkAge(now, v.tolerance); err != nil {
		return err
	}
	covered, readable := false, false
	for _, s := range c.signatures() {
		if v.versions[s.version] {
			covered = true
			readable = readable || s.readable
		}
	}
	switch {
	case !covered:
		return wrong(HeaderSignature, ErrUnknownVersion, "")
	case !readable:
		return wrong(HeaderSignature, ErrMalformed, "no signature has the length and the base64 of its version")
	}
	return nil
}

func (v *Verifier) match(c *claim, body []byte) (Delivery, error) {
	m := message{id: c.id, timestamp: c.timestamp, body: body}
	for i, s := range v.secrets {
		if s.open().matches(&m, c.signatures()) {
			return Delivery{ID: c.id, Timestamp: c.at(), Body: body, Secret: i}, nil
		}
	}
	return Delivery{}, wrong(HeaderSignature, ErrNoMatch, "")
}
