package taxonomy

import (
	"net/http"
	"strings"
)

// headerStatus is the only marker whose word for a first, kept answer is known: "stored".
const headerStatus = "Idempotency-Status"

// replayMarkers are the headers that servers in the field mark a replay with, in canonical form.
var replayMarkers = [...]string{
	"Idempotent-Replayed",
	"Idempotency-Replayed",
	"X-Idempotent-Replayed",
	"Idempotency-Replay",
	"X-Idempotency-Status",
	"X-Idempotency-Cached",
	"X-Cache-Idempotency",
}

// Replayed reports whether the header marks an answer as replayed from the server's record of its key:
// Idempotency-Status is "replayed", or one of Idempotent-Replayed, Idempotency-Replayed,
// X-Idempotent-Replayed, Idempotency-Replay, X-Idempotency-Status, X-Idempotency-Cached and
// X-Cache-Idempotency is "true", "1", "yes", "replayed", "hit" or "cached". Case and surrounding space don't
// matter. Any other value, such as "false", "miss" or "stored", marks nothing. A nil header is not replayed.
func Replayed(h http.Header) bool {
	if hasValue(h, headerStatus, "replayed") {
		return true
	}
	// Indexing instead of Get: the names are canonical already, and this is on the success path.
	for _, name := range &replayMarkers {
		for _, v := range h[name] {
			if isReplayWord(strings.TrimSpace(v)) {
				return true
			}
		}
	}
	return false
}

// settled reports whether the server said that the answer is, from now on, its answer for the key.
func settled(h http.Header) bool {
	if len(h) <= fewFields && !mayBeMarked(h) {
		return false
	}
	return hasValue(h, headerStatus, "stored") || Replayed(h)
}

// fewFields is up to how many fields it costs less to look at each than to look each marker up.
const fewFields = 8

// mayBeMarked reports whether a name in h could be a marker's. It tells most answers apart by a letter.
func mayBeMarked(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, "Idempot") || strings.HasPrefix(name, "X-") {
			return true
		}
	}
	return false
}

func isReplayWord(v string) bool {
	for _, word := range [...]string{"true", "1", "yes", "replayed", "hit", "cached"} {
		if strings.EqualFold(v, word) {
			return true
		}
	}
	return false
}

// hasValue wants name in canonical form.
func hasValue(h http.Header, name, want string) bool {
	for _, v := range h[name] {
		if strings.EqualFold(strings.TrimSpace(v), want) {
			return true
		}
	}
	return false
}
