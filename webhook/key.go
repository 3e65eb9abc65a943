package webhook

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"
	"sync"
)

// A kind is the type of a key. It decides which operations the key has, and the version of its signatures.
type kind uint8

const (
	shared kind = iota
	private
	public
	external
)

// prefix returns the start of a key's text. An external key has no text.
func (k kind) prefix() string { return [...]string{"whsec_", "whsk_", "whpk_", "external_"}[k] }

func (k kind) signs() bool    { return k != public }
func (k kind) verifies() bool { return k != external }

// A version is a signature scheme. The zero version is unknown.
type version uint8

const (
	unknown version = iota
	v1
	v1a
)

// parseVersion parses a signature's identifier.
func parseVersion(s string) version {
	switch s {
	case "v1":
		return v1
	case "v1a":
		return v1a
	}
	return unknown
}

// identifier returns the text before a signature of this version.
func (v version) identifier() string { return [...]string{"", "v1,", "v1a,"}[v] }

// size returns the length of a signature of this version, in bytes.
func (v version) size() int { return [...]int{0, sha256.Size, ed25519.SignatureSize}[v] }

// A key is the content of a Secret.
type key struct {
	kind    kind
	raw     []byte // of a shared secret
	private ed25519.PrivateKey
	public  ed25519.PublicKey // nil for a shared secret, and for an external key that has none
	signer  KeySigner         // of an external key
	scheme  version           // of an external key
	idle    sync.Pool         // of *mac
}

func (k *key) version() version {
	switch k.kind {
	case external:
		return k.scheme
	case shared:
		return v1
	}
	return v1a
}

// A message holds the signed parts: id.timestamp.body.
type message struct {
	id        string
	timestamp string
	body      []byte
	whole     []byte // made when it is needed
}

// appendHead appends the signed parts before the body.
func (m *message) appendHead(dst []byte) []byte {
	dst = append(dst, m.id...)
	dst = append(dst, '.')
	dst = append(dst, m.timestamp...)
	return append(dst, '.')
}

// bytes returns the message in one piece. Ed25519 needs that, since it reads the message twice.
func (m *message) bytes() []byte {
	if m.whole == nil {
		m.whole = append(m.appendHead(make([]byte, 0, len(m.id)+len(m.timestamp)+2+len(m.body))), m.body...)
	}
	return m.whole
}

// A mac is the state of an HMAC under one key, and its buffers.
type mac struct {
	hash hash.Hash
	head []byte
	sum  [sha256.Size]byte
}

// authenticate returns the HMAC over m.
func (k *key) authenticate(m *message) [sha256.Size]byte {
	s, ok := k.idle.Get().(*mac)
	if !ok {
		s = &mac{hash: hmac.New(sha256.New, k.raw)}
	}
	s.hash.Reset()
	s.head = m.appendHead(s.head[:0])
	s.hash.Write(s.head)
	s.hash.Write(m.body)
	s.hash.Sum(s.sum[:0])
	sum := s.sum
	k.idle.Put(s)
	return sum
}

// appendSignature appends an entry with the key's signature over m. The key's kind must sign.
func (k *key) appendSignature(ctx context.Context, dst []byte, m *message) ([]byte, error) {
	dst = append(dst, k.version().identifier()...)
	switch k.kind {
	case shared:
		sum := k.authenticate(m)
		return base64.StdEncoding.AppendEncode(dst, sum[:]), nil
	case external:
		made, err := k.signer.Sign(ctx, m.bytes())
		switch want := k.scheme.size(); {
		case err != nil:
			return nil, fmt.Errorf("%w: a KeySigner failed: %w", ErrSecretsUnavailable, err)
		case len(made) != want:
			return nil, refused("a KeySigner made a signature of %d bytes, not %d", len(made), want)
		}
		return base64.StdEncoding.AppendEncode(dst, made), nil
	}
	return base64.StdEncoding.AppendEncode(dst, ed25519.Sign(k.private, m.bytes())), nil
}

// matches reports whether one of the signatures was made over m with this key.
func (k *key) matches(m *message, signatures []signature) bool {
	v := k.version()
	var sum [sha256.Size]byte
	made := false
	for i := range signatures {
		s := &signatures[i]
		if s.version != v || !s.readable {
			continue
		}
		if v == v1a {
			if ed25519.Verify(k.public, m.bytes(), s.raw[:]) {
				return true
			}
			continue
		}
		if !made {
			sum, made = k.authenticate(m), true
		}
		if hmac.Equal(sum[:], s.raw[:sha256.Size]) { // in constant time
			return true
		}
	}
	return false
}
