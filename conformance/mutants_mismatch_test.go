package conformance

import (
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/redo-go/redo/taxonomy"
)

// onMismatch is a front that changes refusals of another payload.
func onMismatch(change func(r *http.Request, a *httptest.ResponseRecorder)) func(l *lab) {
	return func(l *lab) {
		l.front = rewriting(func(r *http.Request, a *httptest.ResponseRecorder) {
			if isMismatch(a) {
				change(r, a)
			}
		})
	}
}

var mismatchMutants = []mutant{{
	name:  "another payload gets the first response",
	finds: []string{"mismatch-body"},
	also:  []string{"conc-mismatch", "conc-history"},
	defect: onMismatch(func(r *http.Request, a *httptest.ResponseRecorder) {
		if r.URL.RawQuery == "" {
			a.Code = http.StatusCreated
		}
	}),
}, {
	name:   "another payload is gone",
	finds:  []string{"mismatch-body", "conc-mismatch-wins"},
	defect: onMismatch(func(_ *http.Request, a *httptest.ResponseRecorder) { a.Code = http.StatusGone }),
}, {
	name:  "keys are shared by all paths",
	finds: []string{"mismatch-path"},
	defect: func(l *lab) {
		l.front = replayingFirst(func(r *http.Request) bool { return r.URL.Path == "/refunds" })
	},
}, {
	name:  "keys are shared by all methods",
	finds: []string{"mismatch-method"},
	defect: func(l *lab) {
		l.front = replayingFirst(func(r *http.Request) bool { return r.Method == http.MethodPatch })
	},
}, {
	name:  "the query is no part of the payload",
	finds: []string{"mismatch-query"},
	defect: func(l *lab) {
		l.front = rerouting(func(_ http.ResponseWriter, r *http.Request, _ string, _ []byte) bool {
			if r.Method == http.MethodPost {
				r.URL.RawQuery = ""
			}
			return false
		})
	},
}, {
	name:  "a mismatch forgets the record",
	finds: []string{"mismatch-survives"},
	also:  []string{"conc-history", slugMismatch}, // a third payload runs
	defect: func(l *lab) {
		m := newMemory()
		l.front = func(next http.Handler) http.Handler {
			return keyed(func(w http.ResponseWriter, r *http.Request, key string, _ []byte) bool {
				if other := m.get(key); other != "" {
					r.Header.Set("Idempotency-Key", other)
				}
				rec := newRecorder(w)
				next.ServeHTTP(rec, r)
				if isMismatch(rec.ResponseRecorder) {
					m.put(key, freshKey())
				}
				rec.flush()
				return true
			})(next)
		}
	},
}, {
	name:  "a mismatch is not explained",
	finds: []string{"mismatch-problem"},
	defect: onMismatch(func(_ *http.Request, a *httptest.ResponseRecorder) {
		a.Header().Set("Content-Type", "application/json")
	}),
}, {
	name:  "a mismatch has another code",
	finds: []string{"mismatch-code"},
	defect: onMismatch(func(_ *http.Request, a *httptest.ResponseRecorder) {
		a.Header().Set("Error-Code", string(taxonomy.ConflictState))
	}),
}}

// replayingFirst is a front that sends some requests the first response of their key, also of another request.
func replayingFirst(some func(*http.Request) bool) func(http.Handler) http.Handler {
	var mu sync.Mutex
	first := map[string]recorder{}
	return func(next http.Handler) http.Handler {
		return keyed(func(w http.ResponseWriter, r *http.Request, key string, _ []byte) bool {
			mu.Lock()
			known, ok := first[key]
			mu.Unlock()
			rec := newRecorder(w)
			if ok && some(r) {
				rec.ResponseRecorder = known.ResponseRecorder
				rec.flush()
				return true
			}
			next.ServeHTTP(rec, r)
			if !ok {
				mu.Lock()
				first[key] = rec
				mu.Unlock()
			}
			rec.flush()
			return true
		})(next)
	}
}
