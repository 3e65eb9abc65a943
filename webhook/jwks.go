package webhook

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

// ContentTypeJWKS is the media type of a JSON Web Key Set (RFC 7517, section 8.5.2).
const ContentTypeJWKS = "application/jwk-set+json"

// JWKSMaxAge is the time for which a response of [JWKS] may be cached. Publish a new key at least this long before the
// first signature with it.
const JWKSMaxAge = 5 * time.Minute

// MaxJWKS is the largest size of a key set that is parsed, in bytes.
const MaxJWKS = 64 << 10

// A jwk is an Ed25519 public key in the form of RFC 8037, section 2. The fields are in the order of RFC 7638, which
// hashes the first three.
type jwk struct {
	Curve string   `json:"crv"`
	Type  string   `json:"kty"`
	X     string   `json:"x"`
	ID    string   `json:"kid,omitempty"`
	Use   string   `json:"use,omitempty"`
	Ops   []string `json:"key_ops,omitempty"`
}

type jwkSet struct {
	Keys []json.RawMessage `json:"keys"`
}

// JWKS returns a handler that publishes the public keys of the secrets as a JSON Web Key Set (RFC 7517, RFC 8037). It
// publishes those of whsk_ and whpk_ keys, and of external keys that show one. It leaves out all others, so a whsec_
// secret is never published. A key's kid is its thumbprint (RFC 7638). [NewKeySet] reads the set.
//
// The function may be the one of [NewSignerFor], if it depends on the path and not on a destination. It is called for
// each request, so a new key is published without a restart.
//
// Responses to GET and HEAD may be cached for [JWKSMaxAge], and have an ETag. Other methods get 405. If the function
// fails or is nil the response is 503.
func JWKS(secrets SecretsFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			code := string(taxonomy.MethodNotAllowed)
			wire.WriteProblem(w, wire.Problem{Status: http.StatusMethodNotAllowed, Code: code})
			return
		}
		var body []byte
		list, err := secrets.find(r)
		if err == nil {
			body, err = marshalJWKS(list)
		}
		if err != nil {
			code := string(taxonomy.Unavailable)
			wire.WriteProblem(w, wire.Problem{Status: http.StatusServiceUnavailable, Code: code, Retryable: true})
			return
		}
		sum := sha256.Sum256(body)
		h := w.Header()
		h.Set("Content-Type", ContentTypeJWKS)
		h.Set("Cache-Control", fmt.Sprintf("public, max-age=%d", int(JWKSMaxAge.Seconds())))
		h.Set("ETag", `"`+base64.RawURLEncoding.EncodeToString(sum[:16])+`"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	})
}

func marshalJWKS(secrets []Secret) ([]byte, error) {
	set := jwkSet{Keys: []json.RawMessage{}}
	seen := map[string]bool{}
	for _, s := range secrets {
		p, ok := s.Public()
		if !ok {
			continue
		}
		k := jwk{Curve: "Ed25519", Type: "OKP", X: base64.RawURLEncoding.EncodeToString(p.open().public)}
		hashed, err := json.Marshal(k)
		if err != nil {
			return nil, err
		}
		thumbprint := sha256.Sum256(hashed)
		k.ID, k.Use = base64.RawURLEncoding.EncodeToString(thumbprint[:]), "sig"
		if seen[k.ID] {
			continue
		}
		seen[k.ID] = true
		entry, err := json.Marshal(k)
		if err != nil {
			return nil, err
		}
		set.Keys = append(set.Keys, entry)
	}
	return json.Marshal(set)
}

// ParseJWKS parses a JSON Web Key Set and returns its Ed25519 keys as whpk_ keys, in their order. It ignores keys of
// other types and for other uses (RFC 7517, section 5), so the list may be empty. A damaged Ed25519 key is an error,
// and so is a document without "keys". The limits are [MaxJWKS] bytes and [MaxSignatures] keys. The error matches
// [ErrSecret].
func ParseJWKS(document []byte) ([]Secret, error) {
	if len(document) > MaxJWKS {
		return nil, refused("the JWKS has %d bytes, at most %d are allowed", len(document), MaxJWKS)
	}
	var set jwkSet
	if err := json.Unmarshal(document, &set); err != nil {
		return nil, refused("the JWKS is no JSON object with a list of keys")
	}
	if set.Keys == nil {
		return nil, refused(`the JWKS has no "keys"`)
	}
	secrets := []Secret{}
	for i, raw := range set.Keys {
		var k jwk
		if err := json.Unmarshal(raw, &k); err != nil || !k.verifies() {
			continue
		}
		x, err := base64.RawURLEncoding.Strict().DecodeString(k.X)
		if err != nil || len(x) != ed25519.PublicKeySize {
			return nil, refused("key %d of the JWKS is no Ed25519 key: x is not 32 bytes of base64url", i)
		}
		if len(secrets) == MaxSignatures {
			return nil, refused("the JWKS has more than %d keys", MaxSignatures)
		}
		s, err := newSecret(public, x)
		if err != nil {
			return nil, err
		}
		secrets = append(secrets, s)
	}
	return secrets, nil
}

// verifies reports whether k is an Ed25519 key for signatures.
func (k *jwk) verifies() bool {
	if k.Type != "OKP" || k.Curve != "Ed25519" || k.Use != "" && k.Use != "sig" {
		return false
	}
	return len(k.Ops) == 0 || slices.Contains(k.Ops, "verify")
}
