package conformance

import (
	"net/http"
	"sync"
	"time"

	"github.com/redo-go/redo/taxonomy"
)

// takenTwice is a server that first looks whether a key is free again, and then takes it: retries that come together
// all take it. A request frees its key after a time.
func takenTwice(frees func(l *lab, r *http.Request) (after time.Duration, ok bool)) func(l *lab) {
	return func(l *lab) {
		var mu sync.Mutex
		free, taken := map[string]time.Time{}, map[string]string{}
		l.front = keyed(func(_ http.ResponseWriter, r *http.Request, key string, _ []byte) bool {
			mu.Lock()
			at, marked := free[key]
			if after, ok := frees(l, r); ok && !marked {
				free[key] = time.Now().Add(after)
			}
			mu.Unlock()
			if marked && time.Now().After(at) {
				time.Sleep(20 * time.Millisecond) // the race is long enough to be met on any machine
				r.Header.Set("Idempotency-Key", freshKey())
				mu.Lock()
				defer mu.Unlock()
				delete(free, key)
				taken[key] = r.Header.Get("Idempotency-Key")
				return false
			}
			mu.Lock()
			defer mu.Unlock()
			if now := taken[key]; now != "" {
				r.Header.Set("Idempotency-Key", now)
			}
			return false
		})
	}
}

func afterFaultOf(name string) func(*lab, *http.Request) (time.Duration, bool) {
	return func(_ *lab, r *http.Request) (time.Duration, bool) { return 0, r.Header.Get("X-Fault") == name }
}

var takeoverMutants = []mutant{{
	name:  "retries of a failed request race for its key",
	finds: []string{"fault-5xx"}, must: true,
	defect: takenTwice(afterFaultOf("500")),
}, {
	name:  "retries race for the key of a handler that died",
	finds: []string{"fault-crash"}, must: true,
	defect: takenTwice(afterFaultOf("crash")),
}, {
	name:  "retries race for a key that has expired",
	finds: []string{"expiry"}, must: true,
	defect: takenTwice(func(l *lab, r *http.Request) (time.Duration, bool) { return l.short, r.URL.Path == "/short" }),
}, {
	name:  "principals share the lock of a running key",
	finds: []string{"scope-undetectable"},
	defect: func(l *lab) {
		m := newMemory()
		l.front = func(next http.Handler) http.Handler {
			return keyed(func(w http.ResponseWriter, r *http.Request, key string, _ []byte) bool {
				if r.Header.Get("X-Slow") == "" {
					return false
				}
				who := r.Header.Get("Authorization")
				if holder := m.first(key, who); holder != who && holder != "" {
					return refuse(w, http.StatusConflict, taxonomy.InFlight)
				}
				next.ServeHTTP(w, r)
				m.put(key, "")
				return true
			})(next)
		}
	},
}}
