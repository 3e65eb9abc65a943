package conformance

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/redo-go/redo/taxonomy"
)

// falsePasses are wrong servers that once passed: each exits with 1, also in a run that is not strict.
var falsePasses = []mutant{{
	name: "each operation has a second effect half a second later", must: true,
	finds: []string{"late-effects"}, also: []string{"*"}, // a case that takes as long sees it too
	defect: onFirst(func(l *lab, account string) {
		time.AfterFunc(500*time.Millisecond, func() { l.effect(account) })
	}),
}, {
	name: "an instant handler checks, and then acts", must: true,
	finds: []string{"conc-one-effect"}, also: []string{"*"},
	defect: racing,
}, {
	name: "a replay has no Link", must: true,
	finds: []string{"replay-headers"},
	defect: func(l *lab) {
		l.front = rewriting(func(_ *http.Request, a *httptest.ResponseRecorder) {
			if a.Code == http.StatusCreated && !isReplay(a) {
				a.Header().Set("Link", `</orders>; rel="collection"`)
			}
		})
	},
}, {
	name: "a replay has none of the service's own headers", must: true,
	finds:  []string{"replay-headers"},
	defect: onReplay(func(_ *http.Request, a *httptest.ResponseRecorder) { a.Header().Del("X-Part") }),
}, {
	name: "50 keys are kept", must: true,
	finds: []string{"late-replay"}, also: []string{"*"},
	defect: forgetting(func(age time.Duration, keys int) bool { return keys > 50 }),
}, {
	name: "keys are kept for 3 seconds", must: true,
	finds: []string{"late-replay"}, also: []string{"*"},
	defect: forgetting(func(age time.Duration, keys int) bool { return age > 3*time.Second }),
}, {
	name: "keys are compared without their case", must: true,
	finds: []string{"key-case"},
	defect: func(l *lab) {
		l.front = keyed(func(_ http.ResponseWriter, r *http.Request, key string, _ []byte) bool {
			if len(r.Header["Idempotency-Key"]) == 1 {
				r.Header.Set("Idempotency-Key", strings.ToLower(key))
			}
			return false
		})
	},
}, {
	name: "a large replay is cut short", must: true,
	finds: []string{"replay-large"},
	defect: onReplay(func(_ *http.Request, a *httptest.ResponseRecorder) {
		if a.Body.Len() > 1<<20-1 {
			a.Body.Truncate(1<<20 - 1)
		}
	}),
}, {
	name: "the published expiry never comes", must: true,
	finds:  []string{"expiry"},
	defect: func(l *lab) { l.short = time.Hour },
}, {
	name: "a 5xx comes after the effect, and is replayed", must: true,
	finds: []string{"fault-5xx"},
	defect: func(l *lab) {
		l.options = append(l.options, keepServerErrors())
		kept := true
		l.describe = func(t *Target) { t.Fault.Replayed = &kept }
		l.inner = rerouting(func(_ http.ResponseWriter, r *http.Request, _ string, body []byte) bool {
			if r.Header.Get("X-Fault") == "500" {
				l.effect(accountOf(body))
			}
			return false
		})
	},
}, {
	name: "one lock for all keys", must: true,
	finds: []string{"independent-keys"},
	also:  []string{"conc-retry-after"},
	defect: func(l *lab) {
		var mu sync.Mutex
		l.front = around(func(w http.ResponseWriter, r *http.Request, _ []byte, next http.Handler) {
			mu.Lock()
			defer mu.Unlock()
			next.ServeHTTP(w, r)
		})
	},
}, {
	name: "a 409 that acts all the same", must: true,
	finds: []string{"mismatch-body"}, also: []string{"*"},
	defect: func(l *lab) {
		l.front = acting(l, isMismatch)
	},
}, {
	name: "a duplicate in flight is refused and acts", must: true,
	finds: []string{"conc-one-effect", "conc-inflight"}, also: []string{"*"},
	defect: func(l *lab) {
		l.front = acting(l, isInFlight)
	},
}, {
	name: "a refusal for want of a key acts", must: true,
	finds: []string{"key-missing"}, also: []string{"key-empty"},
	defect: func(l *lab) {
		l.front = acting(l, func(a *httptest.ResponseRecorder) bool {
			return a.Header().Get("Error-Code") == string(taxonomy.KeyMissing)
		})
	},
}}

// around is a front that sees the requests with a key, and passes them on itself.
func around(f func(w http.ResponseWriter, r *http.Request, body []byte,
	next http.Handler)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return keyed(func(w http.ResponseWriter, r *http.Request, _ string, body []byte) bool {
			f(w, r, body, next)
			return true
		})(next)
	}
}

// onFirst calls f after each first success of a key.
func onFirst(f func(l *lab, account string)) func(l *lab) {
	return func(l *lab) {
		l.front = around(func(w http.ResponseWriter, r *http.Request, body []byte, next http.Handler) {
			rec := newRecorder(w)
			next.ServeHTTP(rec, r)
			if account := accountOf(body); rec.Code < 300 && !isReplay(rec.ResponseRecorder) && account != "" {
				f(l, account)
			}
			rec.flush()
		})
	}
}

// acting is a front that has an effect with each refusal of a kind.
func acting(l *lab, kind func(*httptest.ResponseRecorder) bool) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return rerouting(func(w http.ResponseWriter, r *http.Request, _ string, body []byte) bool {
			rec := newRecorder(w)
			next.ServeHTTP(rec, r)
			if kind(rec.ResponseRecorder) {
				l.effect(accountOf(body))
			}
			rec.flush()
			return true
		})(next)
	}
}

// forgetting is a server whose keys are forgotten after a while, or after so many others.
func forgetting(over func(age time.Duration, keys int) bool) func(l *lab) {
	return func(l *lab) {
		type known struct {
			as    string
			since time.Time
			n     int
		}
		var mu sync.Mutex
		seen := map[string]known{}
		n := 0
		l.front = keyed(func(_ http.ResponseWriter, r *http.Request, key string, _ []byte) bool {
			if len(r.Header["Idempotency-Key"]) > 1 || len(key) != minKey {
				return false
			}
			mu.Lock()
			defer mu.Unlock()
			k, ok := seen[key]
			if !ok || over(time.Since(k.since), n-k.n) {
				n++
				k = known{as: key, since: time.Now(), n: n}
				if ok {
					k.as = freshKey()
				}
				seen[key] = k
			}
			r.Header.Set("Idempotency-Key", k.as)
			return false
		})
		l.describe = func(t *Target) { t.Retention = Duration(24 * time.Hour) }
	}
}

// racing looks a key up and reserves it only when the handler has ended.
func racing(l *lab) {
	p := newPeer()
	p.racy = true
	l.front = func(http.Handler) http.Handler { return p }
	l.describe = func(t *Target) { t.Profile, t.Interim = "ietf", nil }
}
