package webhook

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"sync"
)

// A kind says what a key can do, and which version its signatures have.
type kind uint8

const (
	shared kind = iota
	private
	public
)

func (k kind) prefix() string { return [...]string{"whsec_", "whsk_", "whpk_"}[k] }

// A version is how a signature was made. The zero version is one that is not known here.
type version uint8

const (
	unknown version = iota
	v1
	v1a
)

// parseVersion reads a signature's identifier.
func parseVersion(s string) version {
	switch s {
	case "v1":
		return v1
	case "v1a":
		return v1a
	}
	return unknown
}

// identifier is what stands before a signature of this version.
func (v version) identifier() string { return [...]string{"", "v1,", "v1a,"}[v] }

// size is the length of a signature of this version, in bytes.
func (v version) size() int { return [...]int{0, sha256.Size, ed25519.SignatureSize}[v] }

// A key is what a Secret hides.
type key struct {
	kind    kind
	raw     []byte // of a shared secret
	private ed25519.PrivateKey
	public  ed25519.PublicKey
	idle    sync.Pool // of *mac
}

func (k *key) version() version {
	if k.kind == shared {
		return v1
	}
	return v1a
}

// A message is what is signed: id.timestamp.body.
type message struct {
	id        string
	timestamp string
	body      []byte
	whole     []byte // made once it is needed
}

// appendHead appends all that is signed before the body.
func (m *message) appendHead(dst []byte) []byte {
	dst = append(dst, m.id...)
	dst = append(dst, '.')
	dst = append(dst, m.timestamp...)
	return append(dst, '.')
}

// bytes is the message in one piece, which Ed25519 needs since it goes over it twice.
func (m *message) bytes() []byte {
	if m.whole == nil {
		m.whole = append(m.appendHead(make([]byte, 0, len(m.id)+len(m.timestamp)+2+len(m.body))), m.body...)
	}
	return m.whole
}

// A mac is the state of an HMAC under one key, and its scratch space.
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

// appendSignature appends the entry that this key makes for m. The key must be one that signs.
func (k *key) appendSignature(dst []byte, m *message) []byte {
	dst = append(dst, k.version().identifier()...)
	if k.kind == shared {
		sum := k.authenticate(m)
		return base64.StdEncoding.AppendEncode(dst, sum[:])
	}
	return base64.StdEncoding.AppendEncode(dst, ed25519.Sign(k.private, m.bytes()))
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
