package webhook

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// Lengths of a whsec_ secret, in bytes before they are encoded (specification, "Signature scheme").
const (
	MinSecret = 24
	MaxSecret = 64
)

// A Secret signs or verifies deliveries. Its text is a prefix and base64:
//
//	whsec_  a secret that both sides share, of MinSecret to MaxSecret bytes; it signs and verifies (v1)
//	whsk_   a private Ed25519 key, as its 32-byte seed or its 64-byte form; it signs and verifies (v1a)
//	whpk_   a public Ed25519 key of 32 bytes; it verifies (v1a)
//
// [External] makes a Secret without a text, for a key in a KMS.
//
// A Secret that is printed, logged or encoded shows only its prefix. [Secret.Reveal] returns the text. The zero Secret
// is refused wherever one is needed. Secrets are not comparable, since == would not take constant time.
type Secret struct {
	// A function, because code that prints values by reflection can't read its variables.
	open func() *key
}

// ParseSecret parses the text of a secret. The error matches ErrSecret. It names the rule, and no part of the text.
func ParseSecret(text string) (Secret, error) {
	for _, k := range [...]kind{shared, private, public} {
		encoded, ok := strings.CutPrefix(text, k.prefix())
		if !ok {
			continue
		}
		if strings.ContainsAny(encoded, "\r\n") { // the decoder would skip them
			return Secret{}, refused("%s: it holds a line break", k.prefix())
		}
		raw, err := base64.StdEncoding.Strict().DecodeString(encoded)
		if err != nil {
			return Secret{}, refused("%s: the rest is not base64 with padding", k.prefix())
		}
		return newSecret(k, raw)
	}
	return Secret{}, refused("it starts with none of whsec_, whsk_ and whpk_")
}

// NewSecret makes a whsec_ secret of 32 bytes. A nil random is crypto/rand. The error is that of random.
func NewSecret(random io.Reader) (Secret, error) { return generate(shared, random) }

// NewPrivate makes a whsk_ key. [Secret.Public] returns the key for the consumer. A nil random is crypto/rand. The
// error is that of random.
func NewPrivate(random io.Reader) (Secret, error) { return generate(private, random) }

func generate(k kind, random io.Reader) (Secret, error) {
	if random == nil {
		random = rand.Reader
	}
	raw := make([]byte, 32)
	if _, err := io.ReadFull(random, raw); err != nil {
		return Secret{}, fmt.Errorf("webhook: make a secret: %w", err)
	}
	return newSecret(k, raw)
}

// newSecret returns the secret of these bytes, and keeps the slice.
func newSecret(kd kind, raw []byte) (Secret, error) {
	k := &key{kind: kd}
	switch {
	case kd == shared:
		if len(raw) < MinSecret || len(raw) > MaxSecret {
			return Secret{}, refused("%s: it has %d bytes, %d to %d are allowed",
				kd.prefix(), len(raw), MinSecret, MaxSecret)
		}
		k.raw = raw
	case kd == public && len(raw) == ed25519.PublicKeySize:
		k.public = raw
	case kd == private && len(raw) == ed25519.SeedSize:
		k.private = ed25519.NewKeyFromSeed(raw)
	case kd == private && len(raw) == ed25519.PrivateKeySize:
		k.private = ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize])
		if !k.private.Equal(ed25519.PrivateKey(raw)) {
			return Secret{}, refused("%s: its public half is not that of its seed", kd.prefix())
		}
	default:
		return Secret{}, refused("%s: %d bytes are no Ed25519 key of this kind", kd.prefix(), len(raw))
	}
	if k.private != nil {
		k.public = ed25519.PublicKey(k.private[ed25519.SeedSize:])
	}
	return Secret{open: func() *key { return k }}, nil
}

// Public returns the whpk_ key of a whsk_ key, of a whpk_ key, or of an external key that has one. Every other secret
// has no public part, and ok is false.
func (s Secret) Public() (p Secret, ok bool) {
	if s.IsZero() || s.open().public == nil {
		return Secret{}, false
	}
	k := &key{kind: public, public: s.open().public}
	return Secret{open: func() *key { return k }}, true
}

// IsZero reports whether s is the zero Secret.
func (s Secret) IsZero() bool { return s.open == nil }

// Reveal returns the secret's text, which ParseSecret parses. It returns "" for the zero Secret and for an external
// key. Use it to give the secret to the other side.
func (s Secret) Reveal() string {
	if s.IsZero() || s.open().kind == external {
		return ""
	}
	k := s.open()
	raw := k.raw
	switch k.kind {
	case private:
		raw = k.private.Seed()
	case public:
		raw = k.public
	}
	return k.kind.prefix() + base64.StdEncoding.EncodeToString(raw)
}

// String returns the prefix and three stars.
func (s Secret) String() string {
	if s.IsZero() {
		return "no secret"
	}
	return s.open().kind.prefix() + "***"
}

// GoString returns the value of String.
func (s Secret) GoString() string { return s.String() }

// Format writes the value of String for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue returns the value of String.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText returns the value of String, which UnmarshalText refuses. So a Secret is never saved by accident.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses text as ParseSecret does, for secrets in a configuration. After an error s is unchanged.
func (s *Secret) UnmarshalText(text []byte) error {
	parsed, err := ParseSecret(string(text))
	if err != nil {
		return err
	}
	*s = parsed
	return nil
}

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrSecret, fmt.Sprintf(format, args...))
}
