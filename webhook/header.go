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

// Header names of a delivery from Svix. A [Verifier] accepts them in place of the others, as Svix's own libraries do. A
// [Signer] does not send them.
const (
	HeaderSvixID        = "svix-id"
	HeaderSvixTimestamp = "svix-timestamp"
	HeaderSvixSignature = "svix-signature"
)

// The names as http.Header keys them.
const (
	keyID        = "Webhook-Id"
	keyTimestamp = "Webhook-Timestamp"
	keySignature = "Webhook-Signature"

	keySvixID        = "Svix-Id"
	keySvixTimestamp = "Svix-Timestamp"
	keySvixSignature = "Svix-Signature"
)

// A headerSet holds the names of a delivery's headers. The key is the canonical form of the name.
type headerSet struct {
	id, timestamp, signature          string
	keyID, keyTimestamp, keySignature string
}

var (
	standardSet = &headerSet{HeaderID, HeaderTimestamp, HeaderSignature, keyID, keyTimestamp, keySignature}
	svixSet     = &headerSet{
		HeaderSvixID, HeaderSvixTimestamp, HeaderSvixSignature, keySvixID, keySvixTimestamp, keySvixSignature,
	}
)

// first returns the name of the first header of the set that h has, and "" if it has none.
func (s *headerSet) first(h http.Header) string {
	switch {
	case len(h[s.keyID]) > 0:
		return s.id
	case len(h[s.keyTimestamp]) > 0:
		return s.timestamp
	case len(h[s.keySignature]) > 0:
		return s.signature
	}
	return ""
}

// setOf returns the set that h uses. Headers of both sets are an error: another reader of the delivery might use the
// other set.
func setOf(h http.Header) (*headerSet, error) {
	svix := svixSet.first(h)
	if svix == "" {
		return standardSet, nil
	}
	if standard := standardSet.first(h); standard != "" {
		return nil, wrong(svix, ErrMalformed, "it was sent together with "+standard)
	}
	return svixSet, nil
}

// MaxID is the longest id, in bytes: that of the longest Idempotency-Key.
const MaxID = 255

// MaxSignatures is the highest number of signatures of a delivery, and of secrets of a signer. It bounds the work that
// a delivery can cause before it is refused.
const MaxSignatures = 32

// A signature is one entry of webhook-signature.
type signature struct {
	version  version
	readable bool // raw holds it
	raw      [64]byte
}

// A claim holds the headers of a delivery before they are verified.
type claim struct {
	set       *headerSet
	id        string
	timestamp string // as it was sent and signed
	seconds   int64
	count     int
	list      [MaxSignatures]signature
}

func (c *claim) signatures() []signature { return c.list[:c.count] }

// at returns the attempt's time.
func (c *claim) at() time.Time { return time.Unix(c.seconds, 0).UTC() }

// read parses the headers.
func (c *claim) read(h http.Header) error {
	var err error
	if c.set, err = setOf(h); err != nil {
		return err
	}
	if c.id, err = single(h, c.set.keyID, c.set.id); err != nil {
		return err
	}
	if rule := checkID(c.id); rule != "" {
		return wrong(c.set.id, ErrMalformed, rule)
	}
	if c.timestamp, err = single(h, c.set.keyTimestamp, c.set.timestamp); err != nil {
		return err
	}
	var rule string
	if c.seconds, rule = parseTimestamp(c.timestamp); rule != "" {
		return wrong(c.set.timestamp, ErrMalformed, rule)
	}
	return c.readSignatures(h[c.set.keySignature])
}

// single returns the one value of a header. A repeated header is refused even if the values agree, since another reader
// of the delivery might use the other value.
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

// checkID returns the rule that the id breaks, and "" if it breaks none. A full stop would make one signature valid for
// two messages. For example, the id "a.1" with a body, and the id "a" with the timestamp 1.
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

// parseTimestamp parses whole seconds since 1970, in the form that strconv writes. It returns the rule that s breaks,
// and "" if it breaks none.
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

// readSignatures parses the entries of all lines. An entry of an unknown version may have any form. An entry of a known
// version that can't be parsed matches nothing.
func (c *claim) readSignatures(lines []string) error {
	name := c.set.signature
	if len(lines) == 0 {
		return wrong(name, ErrMissing, "")
	}
	for _, line := range lines {
		for entry := range strings.SplitSeq(line, " ") {
			if entry == "" {
				continue
			}
			if c.count == MaxSignatures {
				return wrong(name, ErrMalformed, fmt.Sprintf("it has more than %d signatures", MaxSignatures))
			}
			identifier, encoded, ok := strings.Cut(entry, ",")
			if !ok {
				return wrong(name, ErrMalformed, fmt.Sprintf("signature %d has no version", c.count+1))
			}
			s := &c.list[c.count]
			c.count++
			s.version = parseVersion(identifier)
			s.decode(encoded)
		}
	}
	if c.count == 0 {
		return wrong(name, ErrMalformed, "it is empty")
	}
	return nil
}

// strict refuses padding bits that are not zero, so each signature has one text.
var strict = base64.StdEncoding.Strict()

// decode decodes a signature of a known version.
func (s *signature) decode(encoded string) {
	var text [88]byte // an Ed25519 signature in base64
	size := s.version.size()
	if size == 0 || len(encoded) != strict.EncodedLen(size) {
		return
	}
	var raw [66]byte // the decoder needs room for its padding
	n, err := strict.Decode(raw[:], text[:copy(text[:], encoded)])
	s.readable = err == nil && n == size
	copy(s.raw[:], raw[:])
}

// checkAge compares the timestamp with the verifier's clock, in whole seconds.
func (c *claim) checkAge(now time.Time, tolerance time.Duration) error {
	most := int64(tolerance / time.Second)
	clock := max(0, now.Unix())
	// The difference can't overflow: neither number is negative.
	ahead := c.seconds - clock
	reason, side, distance := ErrTooOld, "before", -ahead
	if ahead > 0 {
		reason, side, distance = ErrTooNew, "after", ahead
	}
	if distance <= most {
		return nil
	}
	detail := fmt.Sprintf("%d is %d seconds %s the verifier's clock, %d; at most %d are allowed",
		c.seconds, distance, side, clock, most)
	return &Error{Header: c.set.timestamp, Reason: reason, Skew: seconds(ahead), detail: detail}
}

// seconds returns n seconds, or the longest Duration if n is too many.
func seconds(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Second)
	return time.Duration(max(-most, min(n, most))) * time.Second
}
