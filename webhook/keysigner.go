package webhook

import (
	"context"
	"crypto/ed25519"
)

// A KeySigner makes signatures with a key that it does not reveal, such as a key management service (KMS). [External]
// makes a Secret of it. It must be safe for concurrent use.
//
// A KeySigner of version v1a may also have the method Public() ed25519.PublicKey. [Secret.Public] and [JWKS] then use
// it.
type KeySigner interface {
	// Version returns "v1" for HMAC-SHA256 or "v1a" for Ed25519. It always returns the same value.
	Version() string
	// Sign returns the signature over the message: 32 bytes for v1, and 64 bytes for v1a. The message is the id, the
	// timestamp and the whole body, so it may be longer than a KMS accepts. The context is the request's. After an
	// error the request is not sent, and may be retried; an error that matches [ErrSecret] is final.
	Sign(ctx context.Context, message []byte) (signature []byte, err error)
}

// External returns a Secret that signs with s and can't verify. [Secret.Reveal] returns "" for it. The error matches
// [ErrSecret].
func External(s KeySigner) (Secret, error) {
	if s == nil {
		return Secret{}, refused("the KeySigner is nil")
	}
	k := &key{kind: external, signer: s, scheme: parseVersion(s.Version())}
	if k.scheme == unknown {
		return Secret{}, refused("a KeySigner has the unknown version %q", s.Version())
	}
	if p, ok := s.(interface{ Public() ed25519.PublicKey }); ok && k.scheme == v1a {
		const want = ed25519.PublicKeySize
		if k.public = p.Public(); len(k.public) != want {
			return Secret{}, refused("a KeySigner has a public key of %d bytes, not %d", len(k.public), want)
		}
	}
	return Secret{open: func() *key { return k }}, nil
}
