package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// A Signer signs deliveries with all of its secrets. The zero Signer is not usable: see [NewSigner].
type Signer struct {
	secrets []Secret
	config
}

// NewSigner returns a Signer that signs with each of the secrets, in this order. It keeps a copy of the list. Its error
// matches ErrSecret, or names each option that is wrong; a whpk_ key can't sign.
func NewSigner(secrets []Secret, opts ...SignerOption) (*Signer, error) {
	s := &Signer{config: defaults()}
	for _, o := range opts {
		if o == nil {
			return nil, errNilOption
		}
		o.applySigner(&s.config)
	}
	var err error
	s.secrets, err = check(secrets, func(k kind) bool { return k != public })
	if err := errors.Join(err, s.validate()); err != nil {
		return nil, err
	}
	return s, nil
}

// Sign returns the value of webhook-signature for an attempt at the given time to deliver the body under the id. The
// id is 1 to [MaxID] bytes of printable ASCII without spaces and full stops, and the time is not before 1970: an
// [*Error] says otherwise. An error that matches ErrTooLarge says that the body is over [MaxBody].
func (s *Signer) Sign(id string, at time.Time, body []byte) (string, error) {
	_, signatures, err := s.sign(id, at, body)
	return signatures, err
}

// SetHeader sets the three headers of an attempt at the given time. Its errors are Sign's, and leave the header as it
// was.
func (s *Signer) SetHeader(h http.Header, id string, at time.Time, body []byte) error {
	timestamp, signatures, err := s.sign(id, at, body)
	if err != nil {
		return err
	}
	values := [...]string{id, timestamp, signatures} // one allocation for the three
	h[keyID], h[keyTimestamp], h[keySignature] = values[0:1:1], values[1:2:2], values[2:3:3]
	return nil
}

func (s *Signer) sign(id string, at time.Time, body []byte) (timestamp, signatures string, err error) {
	if rule := checkID(id); rule != "" {
		return "", "", wrong(HeaderID, ErrMalformed, rule)
	}
	seconds := at.Unix()
	if seconds < 0 {
		return "", "", wrong(HeaderTimestamp, ErrMalformed, fmt.Sprintf("%d seconds, it must not be before 1970", seconds))
	}
	if len(body) > s.maxBody {
		return "", "", tooLarge(s.maxBody)
	}
	timestamp = strconv.FormatInt(seconds, 10)
	m := message{id: id, timestamp: timestamp, body: body}
	var few [256]byte
	list := few[:0]
	for i, secret := range s.secrets {
		if i > 0 {
			list = append(list, ' ')
		}
		list = secret.open().appendSignature(list, &m)
	}
	return timestamp, string(list), nil
}
