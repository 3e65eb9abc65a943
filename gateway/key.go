package gateway

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/http"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/internal/wire"
)

// minSecret is the shortest secret, in bytes.
const minSecret = 16

// keyLength is the length of an upstream key, in bytes.
const keyLength = 2 * sha256.Size

// upstreamKey returns the key that the upstream gets: the HMAC-SHA256 of principal and key. The lengths keep "ab","c"
// and "a","bc" apart.
func (c *config) upstreamKey(principal, key string) string {
	mac := hmac.New(sha256.New, c.secret)
	for _, part := range [...]string{principal, key} {
		mac.Write(binary.AppendUvarint(nil, uint64(len(part))))
		mac.Write([]byte(part))
	}
	return hex.EncodeToString(mac.Sum(nil))
}

// A tap holds the identity of a phone's request. A repetition has the same one.
type tap struct {
	keyed     bool   // there is a key
	key       string // "" if it is malformed
	malformed error
	user      string // the principal, for a request with a key
}

type tapKey struct{}

// tapOf returns the tap of a request that the gateway has read.
func tapOf(ctx context.Context) tap {
	t, _ := ctx.Value(tapKey{}).(tap)
	return t
}

// read returns the request with its tap in the context. If there is no key, the app's request id becomes the key.
func (c *config) read(r *http.Request) (*http.Request, tap) {
	var t tap
	lines := wire.Lines(r.Header, wire.HeaderKey)
	id := r.Header.Get(c.requestID)
	if len(lines) == 0 && !wire.SafeMethod(r.Method) && wire.CheckKey(id) == nil && c.principal(r) != "" {
		r = keyed(r, id)
		lines = wire.Lines(r.Header, wire.HeaderKey)
	}
	if t.keyed = len(lines) > 0; t.keyed {
		t.key, t.malformed = wire.ParseKey(lines)
		t.user = c.principal(r)
	}
	ctx := context.WithValue(r.Context(), tapKey{}, t)
	if ctx.Value(http.ServerContextKey) == nil {
		ctx = context.WithValue(ctx, http.ServerContextKey, wire.NoServer)
	}
	return r.WithContext(ctx), t
}

// keyed returns a copy of the request with a key.
func keyed(r *http.Request, key string) *http.Request {
	r = r.Clone(r.Context())
	r.Header.Set(wire.HeaderKey, wire.FormatKey(key, false, false))
	return r
}

// named returns a context for the operation of an upstream key.
func named(ctx context.Context, key string) context.Context {
	return redo.WithKey(redo.WithOperation(ctx, operationName(key)), key)
}

// operationName returns the name of the operation of an upstream key.
func operationName(key string) string { return "gateway:" + key }
