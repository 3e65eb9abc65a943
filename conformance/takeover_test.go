package conformance

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Retries that come together have one effect on each of these servers. All but one of the retries may be refused.
func TestTakeOverMayRefuseOrSerializeRacers(t *testing.T) {
	t.Parallel() // runs spend their time waiting
	for name, front := range map[string]func(http.Handler) http.Handler{
		"the others get 500":                    oneOfEachKey(http.StatusInternalServerError),
		"the others get 404":                    oneOfEachKey(http.StatusNotFound),
		"the others are dropped":                oneOfEachKey(0),
		"the last one comes a retention later":  oneAtATime(150 * time.Millisecond),
		"three at a time, 503 without a reason": atMost(3),
		"a token bucket":                        tokenBucket,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cases := []string{"fault-5xx", "fault-crash", "expiry"}
			report := judge(t, benign{front: front}, cases...)
			require.Subset(t, passed(report), cases, texts(report))
		})
	}
}

// oneOfEachKey serves one request of a key at a time. The others get the status, or no response if it is zero.
func oneOfEachKey(status int) func(http.Handler) http.Handler {
	var busy sync.Map
	return around(func(w http.ResponseWriter, r *http.Request, _ []byte, next http.Handler) {
		key := r.Header.Get("Idempotency-Key")
		if _, other := busy.LoadOrStore(key, true); other {
			if status == 0 {
				panic(http.ErrAbortHandler)
			}
			w.WriteHeader(status)
			return
		}
		defer busy.Delete(key)
		time.Sleep(20 * time.Millisecond)
		rec := newRecorder(w)
		next.ServeHTTP(rec, r)
		busy.Delete(key) // the client may send the next request as soon as it has the response
		rec.flush()
	})
}

// oneAtATime serves one request at a time, each of which takes a while.
func oneAtATime(takes time.Duration) func(http.Handler) http.Handler {
	var mu sync.Mutex
	return around(func(w http.ResponseWriter, r *http.Request, _ []byte, next http.Handler) {
		mu.Lock()
		defer mu.Unlock()
		time.Sleep(takes)
		next.ServeHTTP(w, r)
	})
}

// atMost serves n requests at a time. The others get 503 without Retry-After.
func atMost(n int) func(http.Handler) http.Handler {
	places := make(chan struct{}, n)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case places <- struct{}{}:
				defer func() { <-places }()
				next.ServeHTTP(w, r)
			default:
				http.Error(w, "try again", http.StatusServiceUnavailable)
			}
		})
	}
}

// Another principal may wait for the resource that a slow request locks, or be refused, whichever key it sends.
func TestResourceMayBeLockedBetweenPrincipals(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	locked := map[string]bool{}
	report := judge(t, benign{front: around(func(w http.ResponseWriter, r *http.Request, body []byte, next http.Handler) {
		account := accountOf(body)
		mu.Lock()
		held := locked[account]
		locked[account] = locked[account] || r.Header.Get("X-Slow") != ""
		mu.Unlock()
		if held {
			w.WriteHeader(http.StatusConflict)
			return
		}
		rec := newRecorder(w)
		next.ServeHTTP(rec, r)
		mu.Lock()
		delete(locked, account)
		mu.Unlock()
		rec.flush()
	})}, "scope-undetectable")
	res, _ := report.Result("scope-undetectable")
	require.Equal(t, Pass, res.Verdict, texts(report))
	require.Contains(t, res.Findings[0].Actual, "under any key")
}
