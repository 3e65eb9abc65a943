package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
)

// narrowMutants compare a part of a key, of a payload or of a response, or scope a key by the sender's circumstances.
// Each exits with 1, also in a run that is not strict.
var narrowMutants = []mutant{{
	name: "keys are compared without their punctuation", must: true,
	finds: []string{"key-case"}, also: []string{"key-too-long"}, // its key is shorter then
	defect: rekeying(func(_ *http.Request, key string) string {
		return strings.NewReplacer("-", "", "_", "").Replace(key)
	}),
}, {
	name: "keys are compared as parts of a URL", must: true,
	finds: []string{"key-case"},
	defect: rekeying(func(_ *http.Request, key string) string {
		if decoded, err := url.QueryUnescape(key); err == nil {
			return decoded
		}
		return key
	}),
}, {
	name: "keys are compared by their first 255 bytes, and no length is published", must: true,
	finds: []string{"key-no-truncate"},
	defect: func(l *lab) {
		rekeying(func(_ *http.Request, key string) string { return key[:min(len(key), 255)] })(l)
		l.describe = func(t *Target) { t.Profile, t.Key.MaxLength = "ietf", 0 }
	},
}, {
	name: "the item alone is the payload", must: true,
	finds:  []string{slugMismatch},
	defect: comparing(func(o order) any { return o.Item }),
}, {
	name: "the amount alone is the payload", must: true,
	finds:  []string{slugMismatch},
	defect: comparing(func(o order) any { return o.Amount }),
}, {
	name: "a key belongs to the address of its client", must: true,
	finds:  []string{"replay-other-headers"},
	defect: rekeying(func(r *http.Request, key string) string { return key + r.Header.Get("X-Forwarded-For") }),
}, {
	name: "a key belongs to the origin of its page", must: true,
	finds: []string{"replay-other-headers"},
	defect: rekeying(func(r *http.Request, key string) string {
		return key + r.Header.Get("Origin")
	}),
}, {
	name: "a key belongs to a media type", must: true,
	finds: []string{"replay-other-headers"},
	defect: rekeying(func(r *http.Request, key string) string {
		return fmt.Sprintf("%s%x", key, r.Header.Get("Accept"))
	}),
}, {
	name: "a replay has another value in a header of the service's own", must: true,
	finds: []string{"replay-headers"},
	defect: onReplay(func(_ *http.Request, a *httptest.ResponseRecorder) {
		if len(a.Header()["X-Part"]) == 2 {
			a.Header()["X-Part"] = []string{"one", "three"}
		}
	}),
}}

// rekeying is a server that takes another text for the key.
func rekeying(as func(r *http.Request, key string) string) func(l *lab) {
	return func(l *lab) {
		l.front = keyed(func(_ http.ResponseWriter, r *http.Request, key string, _ []byte) bool {
			if len(r.Header["Idempotency-Key"]) == 1 {
				r.Header.Set("Idempotency-Key", as(r, key))
			}
			return false
		})
	}
}

// comparing is a server that compares a part of the order, and takes the rest for the first order's.
func comparing(part func(order) any) func(l *lab) {
	return func(l *lab) {
		type known struct {
			part any
			body []byte
		}
		var mu sync.Mutex
		first := map[string]known{}
		l.front = keyed(func(_ http.ResponseWriter, r *http.Request, key string, body []byte) bool {
			var o order
			if json.Unmarshal(body, &o) != nil || r.URL.RawQuery != "" || strings.Contains(key, `"`) {
				return false
			}
			mu.Lock()
			defer mu.Unlock()
			id := r.Method + r.URL.Path + principal(r) + key
			was, ok := first[id]
			if !ok {
				first[id] = known{part(o), body}
			} else if was.part == part(o) {
				r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(was.body)), int64(len(was.body))
			}
			return false
		})
	}
}
