package servertest

import (
	"net/http"
	"strings"

	"github.com/redo-go/redo/internal/wire"
)

// keyOf returns the request's idempotency key: abc and "abc" are the same one. A key that no server would accept is
// taken as it is, since a test may well send one; several are joined with commas.
func keyOf(h http.Header) string {
	lines := h.Values(wire.HeaderKey)
	if key, err := wire.ParseKey(lines); err == nil {
		return key
	}
	return strings.Join(lines, ", ")
}
