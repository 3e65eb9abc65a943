package servertest

import (
	"net/http"
	"strings"

	"github.com/redo-go/redo/internal/wire"
)

// keyOf returns the idempotency key in the header of that name: abc and "abc" are the same key. It returns a
// malformed key unparsed, because a test may send one. It joins several keys with commas. It returns "" if there
// is none.
func keyOf(h http.Header, name string) string { return keyIn(h.Values(name)) }

// bare returns a key that a test names, with or without quotes, as requests have it.
func bare(key string) string { return keyIn([]string{key}) }

func keyIn(lines []string) string {
	if key, err := wire.ParseKey(lines); err == nil {
		return key
	}
	return strings.Join(lines, ", ")
}
