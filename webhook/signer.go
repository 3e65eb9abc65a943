package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// A Signer signs deliveries with all of its secrets. [NewSigner] and [NewSignerFor] make one; the zero Signer is not
// usable.
type Signer struct {
	secrets []Secret
	source  SecretsFunc // nil if the secrets are fixed
	remote  bool        // one of the fixed secrets is external
	config
}

// NewSigner returns a Signer that signs with each of the secrets, in this order. It keeps a copy of the list. Its error
// matches ErrSecret, or names each option that is wrong. A whpk_ key can't sign.
func NewSigner(secrets []Secret, opts ...SignerOption) (*Signer, error) {
	s := &Signer{secrets: slices.Clone(secrets)}
	if err := s.set(check(secrets, signing), opts); err != nil {
		return nil, err
	}
	s.remote = slices.ContainsFunc(s.secrets, func(s Secret) bool { return s.open().kind == external })
	return s, nil
}

// NewSignerFor returns a Signer that fetches the secrets of each request from secrets, such as those of its
// destination. It signs with each of them. Use it through [Signer.Transport] or [Signer.SignRequest]:
// [Signer.Sign] and [Signer.SetHeader] have no request, and fail. The error names each option that is wrong.
func NewSignerFor(secrets SecretsFunc, opts ...SignerOption) (*Signer, error) {
	s := &Signer{source: secrets}
	var err error
	if secrets == nil {
		err = errNilSource
	}
	if err := s.set(err, opts); err != nil {
		return nil, err
	}
	return s, nil
}

// set applies the options. Its error includes found.
func (s *Signer) set(found error, opts []SignerOption) error {
	s.config = defaults()
	for _, o := range opts {
		if o == nil {
			return errNilOption
		}
		o.applySigner(&s.config)
	}
	return errors.Join(found, s.validate())
}

// Sign returns the value of webhook-signature for an attempt at the given time to deliver the body under the id. The
// id has 1 to [MaxID] bytes of printable ASCII without spaces and full stops, and the time is not before 1970.
// Otherwise the error is an [*Error]. It matches ErrTooLarge if the body is over [MaxBody]. It matches ErrSecret if the
// Signer needs a request: that of [NewSignerFor] or with a secret of [External].
func (s *Signer) Sign(id string, at time.Time, body []byte) (string, error) {
	if err := s.needsNoRequest(); err != nil {
		return "", err
	}
	_, signatures, err := s.sign(context.Background(), s.secrets, id, at, body)
	return signatures, err
}

// SetHeader sets the three headers of an attempt at the given time. Its errors are those of Sign. After an error the
// header is unchanged.
func (s *Signer) SetHeader(h http.Header, id string, at time.Time, body []byte) error {
	if err := s.needsNoRequest(); err != nil {
		return err
	}
	return s.setHeader(context.Background(), s.secrets, h, id, at, body)
}

func (s *Signer) needsNoRequest() error {
	if s.source != nil || s.remote {
		return refused("the signer needs a request: use SignRequest or Transport")
	}
	return nil
}

// SignRequest sets the three headers of r, for an attempt at the given time. The request decides the secrets, and its
// context ends the calls of a [KeySigner]. body is the body that r sends; r.Body is not read. The errors are those of
// Sign, and ErrSecretsUnavailable if the [SecretsFunc] or a KeySigner fails. After an error the header is unchanged.
func (s *Signer) SignRequest(r *http.Request, id string, at time.Time, body []byte) error {
	secrets := s.secrets
	if s.source != nil {
		var err error
		if secrets, err = s.source.find(r); err != nil {
			return err
		}
		if len(secrets) == 0 {
			return refused("the SecretsFunc has none for this request")
		}
		if err := check(secrets, signing); err != nil {
			return err
		}
	}
	if r.Header == nil {
		r.Header = http.Header{}
	}
	return s.setHeader(r.Context(), secrets, r.Header, id, at, body)
}

func (s *Signer) setHeader(
	ctx context.Context, secrets []Secret, h http.Header, id string, at time.Time, body []byte,
) error {
	timestamp, signatures, err := s.sign(ctx, secrets, id, at, body)
	if err != nil {
		return err
	}
	values := [...]string{id, timestamp, signatures} // one allocation for the three
	h[keyID], h[keyTimestamp], h[keySignature] = values[0:1:1], values[1:2:2], values[2:3:3]
	return nil
}

func (s *Signer) sign(
	ctx context.Context, secrets []Secret, id string, at time.Time, body []byte,
) (timestamp, signatures string, err error) {
	if rule := checkID(id); rule != "" {
		return "", "", wrong(HeaderID, ErrMalformed, rule)
	}
	seconds := at.Unix()
	if seconds < 0 {
		detail := fmt.Sprintf("%d seconds, it must not be before 1970", seconds)
		return "", "", wrong(HeaderTimestamp, ErrMalformed, detail)
	}
	if len(body) > s.maxBody {
		return "", "", tooLarge(s.maxBody)
	}
	timestamp = strconv.FormatInt(seconds, 10)
	m := message{id: id, timestamp: timestamp, body: body}
	var few [256]byte
	list := few[:0]
	for i, secret := range secrets {
		if i > 0 {
			list = append(list, ' ')
		}
		if list, err = secret.open().appendSignature(ctx, list, &m); err != nil {
			return "", "", err
		}
	}
	return timestamp, string(list), nil
}
