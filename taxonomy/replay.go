package taxonomy

import (
	"net/http"
	"strings"
)

// headerStatus is the only marker with a known word for a first, kept response: "stored".
const headerStatus = "Idempotency-Status"

// replayMarkers are the headers that mark a replay in public APIs and middleware, in canonical form.
var replayMarkers = [...]string{
	"Idempotent-Replayed",
	"Idempotency-Replayed",
	"X-Idempotent-Replayed",
	"Idempotency-Replay",
	"Idempotency-Hit",
	"X-Idempotency-Status",
	"X-Idempotency-Cached",
	"X-Cache-Idempotency",
}

// Replayed reports whether the header marks a response as replayed from the server's record of its key. It is
// true if Idempotency-Status is "replayed", or if one of Idempotent-Replayed, Idempotency-Replayed,
// X-Idempotent-Replayed, Idempotency-Replay, Idempotency-Hit, X-Idempotency-Status, X-Idempotency-Cached and
// X-Cache-Idempotency is "true", "1", "yes", "replayed", "hit" or "cached". Case and surrounding space don't
// matter. Any other value, such as "false", "miss" or "stored", marks nothing. A nil header is not replayed.
func Replayed(h http.Header) bool {
	if hasValue(h, headerStatus, "replayed") {
		return true
	}
	// Indexing instead of Get: the names are canonical already, and this is on the success path.
	for _, name := range &replayMarkers {
		if hasReplayWord(h[name]) {
			return true
		}
	}
	return false
}

// ReplayedBy is like [Replayed] and also reads the named headers, with the same values. Nil markers add none. The
// names need not be in canonical form, but only canonical ones avoid an allocation.
func ReplayedBy(h http.Header, markers []string) bool {
	return Replayed(h) || isMarked(h, markers)
}

func isMarked(h http.Header, markers []string) bool {
	for _, name := range markers {
		if hasReplayWord(h.Values(name)) {
			return true
		}
	}
	return false
}

// isFinal reports whether the server keeps the response as its only one for the key: it was stored or replayed.
func isFinal(h http.Header, markers []string) bool {
	if isMarked(h, markers) {
		return true
	}
	if len(h) <= fewFields && !mayBeMarked(h) {
		return false
	}
	return hasValue(h, headerStatus, "stored") || Replayed(h)
}

// fewFields is the largest number of fields for which a look at each field costs less than a lookup of each marker.
const fewFields = 8

// mayBeMarked reports whether a name in h could be a known marker's. Two prefixes exclude most responses.
func mayBeMarked(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, "Idempot") || strings.HasPrefix(name, "X-") {
			return true
		}
	}
	return false
}

func hasReplayWord(values []string) bool {
	for _, v := range values {
		v = strings.TrimSpace(v)
		for _, word := range [...]string{"true", "1", "yes", "replayed", "hit", "cached"} {
			if strings.EqualFold(v, word) {
				return true
			}
		}
	}
	return false
}

// hasValue expects name in canonical form.
func hasValue(h http.Header, name, want string) bool {
	for _, v := range h[name] {
		if strings.EqualFold(strings.TrimSpace(v), want) {
			return true
		}
	}
	return false
}
