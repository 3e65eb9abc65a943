package webhook

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Header names, as the specification writes them.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"
)

// The names as http.Header keys them.
const (
	keyID        = "Webhook-Id"
	keyTimestamp = "Webhook-Timestamp"
	keySignature = "Webhook-Signature"
)

// MaxID is the longest id, in bytes: that of the longest Idempotency-Key.
const MaxID = 255

// MaxSignatures is how many signatures a delivery may have, and so how many secrets a signer. It bounds the work that a
// delivery can cause before it is refused.
const MaxSignatures = 32

// A signature is one entry of webhook-signature.
type signature struct {
	version  version
	readable bool // raw holds it
	raw      [64]byte
}

// A claim is what the headers of a delivery say, before it is known to be true.
type claim struct {
	id        string
	timestamp string // as it was sent, which is what was signed
	seconds   int64
	count     int
	list      [MaxSignatures]signature
}

func (c *claim) signatures() []signature { return c.list[:c.count] }

// at is the attempt's time.
func (c *claim) at() time.Time { return time.Unix(c.seconds, 0).UTC() }

// read takes the headers apart.
func (c *claim) read(h http.Header) error {
	var err error
	if c.id, err = single(h, keyID, HeaderID); err != nil {
		return err
	}
	if rule := checkID(c.id); rule != "" {
		return wrong(HeaderID, ErrMalformed, rule)
	}
	if c.timestamp, err = single(h, keyTimestamp, HeaderTimestamp); err != nil {
		return err
	}
	var rule string
	if c.seconds, rule = parseTimestamp(c.timestamp); rule != "" {
		return wrong(HeaderTimestamp, ErrMalformed, rule)
	}
	return c.readSignatures(h[keySignature])
}

// single returns the one value of a header. The same header twice is refused, even when the values agree: whoever stands
// in between might read the other one.
func single(h http.Header, key, name string) (string, error) {
	switch values := h[key]; len(values) {
	case 0:
		return "", wrong(name, ErrMissing, "")
	case 1:
		return values[0], nil
	default:
		return "", wrong(name, ErrMalformed, "it was sent "+strconv.Itoa(len(values))+" times")
	}
}

// checkID returns the rule that the id breaks, empty when it breaks none. A full stop would let one signature stand for
// two messages: that of a.1.b is also that of the id a, the timestamp 1 and a body that starts with b.
func checkID(id string) string {
	switch {
	case id == "":
		return "it is empty"
	case len(id) > MaxID:
		return fmt.Sprintf("it has %d bytes, at most %d are allowed", len(id), MaxID)
	}
	for i := range len(id) {
		switch c := id[i]; {
		case c == '.':
			return fmt.Sprintf("byte %d is a full stop, which separates the signed parts", i)
		case c <= ' ' || c > '~':
			return fmt.Sprintf("byte %d is 0x%02X, only printable ASCII without spaces is allowed", i, c)
		}
	}
	return ""
}

// parseTimestamp reads whole seconds since 1970 as strconv writes them, and returns the rule that they break.
func parseTimestamp(s string) (seconds int64, rule string) {
	if s == "" {
		return 0, "it is empty"
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, fmt.Sprintf("byte %d is 0x%02X, only digits are allowed", i, s[i])
		}
	}
	if s[0] == '0' && len(s) > 1 {
		return 0, "it starts with a zero"
	}
	seconds, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, "it is too large a number"
	}
	return seconds, ""
}

// readSignatures reads the entries, of all lines together. An entry of a version that is not known may look as it likes;
// one of a known version that can't be read matches nothing.
func (c *claim) readSignatures(lines []string) error {
	if len(lines) == 0 {
		return wrong(HeaderSignature, ErrMissing, "")
	}
	for _, line := range lines {
		for entry := range strings.SplitSeq(line, " ") {
			if entry == "" {
				continue
			}
			if c.count == MaxSignatures {
				return wrong(HeaderSignature, ErrMalformed, fmt.Sprintf("it has more than %d signatures", MaxSignatures))
			}
			name, encoded, ok := strings.Cut(entry, ",")
			if !ok {
				return wrong(HeaderSignature, ErrMalformed, fmt.Sprintf("signature %d has no version", c.count+1))
			}
			s := &c.list[c.count]
			c.count++
			s.version = parseVersion(name)
			s.decode(encoded)
		}
	}
	if c.count == 0 {
		return wrong(HeaderSignature, ErrMalformed, "it is empty")
	}
	return nil
}

// strict refuses bits after the end, so that each signature has one text.
var strict = base64.StdEncoding.Strict()

// decode reads the bytes of a signature of a known version.
func (s *signature) decode(encoded string) {
	var text [88]byte // an Ed25519 signature in base64
	size := s.version.size()
	if size == 0 || len(encoded) != strict.EncodedLen(size) {
		return
	}
	var raw [66]byte // the decoder wants room for its padding
	n, err := strict.Decode(raw[:], text[:copy(text[:], encoded)])
	s.readable = err == nil && n == size
	copy(s.raw[:], raw[:])
}

// checkAge compares the claim's time with now, both in whole seconds, since that is all that is sent.
func (c *claim) checkAge(now time.Time, tolerance time.Duration) error {
	most := int64(tolerance / time.Second)
	// Neither difference can overflow: the claim is not negative, nor is a present that anybody lives in.
	age := max(0, now.Unix()) - c.seconds
	switch {
	case age > most:
		return wrong(HeaderTimestamp, ErrTooOld, fmt.Sprintf("%d seconds before now, at most %d are allowed", age, most))
	case -age > most:
		return wrong(HeaderTimestamp, ErrTooNew, fmt.Sprintf("%d seconds after now, at most %d are allowed", -age, most))
	}
	return nil
}
