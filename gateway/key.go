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

// identify returns the request with a key made of the app's request id. A request that has a key, or no id that can be
// one, stays as it is.
func (c *config) identify(r *http.Request) *http.Request {
	if c.requestID == "" || wire.SafeMethod(r.Method) || len(wire.Lines(r.Header, wire.HeaderKey)) > 0 {
		return r
	}
	id := r.Header.Get(c.requestID)
	if wire.CheckKey(id) != nil {
		return r
	}
	r = r.Clone(r.Context())
	r.Header.Set(wire.HeaderKey, wire.FormatKey(id, wire.NeedsQuotes(id), false))
	return r
}

// named returns a context for the operation of an upstream key.
func named(ctx context.Context, key string) context.Context {
	return redo.WithKey(redo.WithOperation(ctx, "gateway:"+key), key)
}
