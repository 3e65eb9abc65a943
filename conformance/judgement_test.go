package conformance

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/memstore"
)

// judge runs cases against a right server that differs, and returns the report.
func judge(t *testing.T, b benign, only ...string) Report {
	t.Helper()
	report, err := Run(t.Context(), b.start(t), Seed(1), Only(only...))
	require.NoError(t, err, trouble(report))
	return report
}

// A refused refund has no effect, however many its effects are under a key of its own.
func TestSecondOperationMayHaveTwoEffects(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]time.Duration{"at once": 0, "one after the other": 300 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			report := judge(t, benign{peer: func(p *peer) {
				p.respond = func(w http.ResponseWriter, r *http.Request, o order, id string) {
					switch {
					case r.URL.Path != "/refunds":
					case later == 0:
						p.add(o.Account)
					default:
						p.pending.Add(1)
						time.AfterFunc(later, func() { defer p.pending.Done(); p.add(o.Account) })
					}
					peerOrder(w, r, o, id)
				}
			}, target: func(target *Target, _ *httptest.Server) {
				target.Effects.Settle = Duration(2 * later)
			}}, "mismatch-path", "late-effects")
			require.Empty(t, broken(report), trouble(report))
		})
	}
}

// conc-history judges a refusal as in flight after the response. No other case fails for it. A 503 is no such refusal.
func TestServerThatRecordsAMomentAfterItsResponseFailsOneCase(t *testing.T) {
	t.Parallel()
	for status, fails := range map[int][]string{
		http.StatusConflict: {"conc-history"}, http.StatusServiceUnavailable: nil,
	} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			report, err := Run(t.Context(), benign{front: recordingLate(status)}.start(t), Seed(1))
			require.NoError(t, err)
			require.Equal(t, fails, broken(report), trouble(report))
		})
	}
}

// recordingLate refuses each key with the status for a moment after its first response. It refuses with 409 at least
// four times, which conc-history meets on a busy machine too.
func recordingLate(status int) func(http.Handler) http.Handler {
	var mu sync.Mutex
	until, refused := map[string]time.Time{}, newMemory()
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			id := principal(r) + strings.Trim(r.Header.Get("Idempotency-Key"), "\" \t")
			mu.Lock()
			end, known := until[id]
			mu.Unlock()
			keyed := r.Header.Get("Idempotency-Key") != "" && (r.Method == "POST" || r.Method == "PATCH")
			more := known && status == http.StatusConflict && refused.add(id, 1) <= 4
			if keyed && (more || time.Now().Before(end)) {
				w.Header().Set("Content-Type", "application/problem+json")
				if status == http.StatusConflict {
					w.Header().Set("Retry-After", "1")
				}
				w.WriteHeader(status)
				return
			}
			next.ServeHTTP(w, r)
			if keyed && !known {
				mu.Lock()
				defer mu.Unlock()
				until[id] = time.Now().Add(100 * time.Millisecond)
			}
		})
	}
}

// The effects of one case come before the next case begins to count.
func TestLateEffectsOfAnotherCaseAreNotCounted(t *testing.T) {
	t.Parallel()
	report := judge(t, benign{
		peer: func(p *peer) {
			p.delay = 300 * time.Millisecond
			p.account = func(*http.Request, order) string { return "all" }
		},
		target: func(target *Target, _ *httptest.Server) { target.Effects.URL = "/effects?account=all" },
	}, "mismatch-problem", "conc-one-effect")
	require.Empty(t, broken(report), trouble(report))
}

// A gateway in front of a server that starts accepts connections, drops them, and responds with 502.
func TestRestartBehindAGatewayIsWaitedFor(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var restarted time.Time
	report := judge(t, benign{
		front: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				age := time.Since(restarted)
				mu.Unlock()
				switch {
				case age < 200*time.Millisecond:
					panic(http.ErrAbortHandler)
				case age < 500*time.Millisecond:
					w.WriteHeader(http.StatusBadGateway)
				default:
					next.ServeHTTP(w, r)
				}
			})
		},
		target: func(target *Target, _ *httptest.Server) {
			target.Restart = &Restart{Func: func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				restarted = time.Now()
				return nil
			}}
		},
	}, "restart-durable")
	require.Contains(t, passed(report), "restart-durable", trouble(report))
}

// The contract lets a server refuse a key that is older than its retention, where the key tells its age.
func TestKeyMayBeRefusedAsExpired(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	n := 0
	once := server.Middleware(memstore.New(), server.SharedKeys(), server.RefuseExpiredKeys(),
		server.Retention(2*time.Second), server.LeaseTTL(time.Second))
	srv := httptest.NewServer(once(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		n++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id":%d}`, n)
	})))
	t.Cleanup(srv.Close)
	profile := redoProfile
	profile.KeyForm = UUIDv7
	report, err := Run(t.Context(), Target{
		BaseURL: srv.URL, CustomProfile: &profile, Retention: Duration(2 * time.Second),
		Operation: Operation{Method: "POST", Path: "/orders", Body: `{"item":"{{payload}}"}`},
		Effects:   &Effects{ResponseID: "id"},
	}, Only("expiry"))
	require.NoError(t, err)
	res, _ := report.Result("expiry")
	require.Equal(t, Pass, res.Verdict, trouble(report))
	require.Contains(t, res.Findings[0].Actual, "CONFLICT.idempotency.expired")
}

// RFC 9457 has problem documents in XML too.
func TestProblemMayBeXML(t *testing.T) {
	t.Parallel()
	report := judge(t, benign{front: rewriting(func(_ *http.Request, a *httptest.ResponseRecorder) {
		if a.Code >= 400 {
			a.Header().Set("Content-Type", "application/problem+xml")
			a.Body.Reset()
			_, _ = io.WriteString(a.Body, `<problem xmlns="urn:ietf:rfc:7807"><title>refused</title></problem>`)
		}
	})}, "key-missing", "mismatch-problem")
	require.Empty(t, broken(report), trouble(report))
}

// Two variants may be chosen by the same value of different headers. What one does says nothing about the other.
func TestOperationsThatDifferInAHeaderAreTwo(t *testing.T) {
	one := Operation{Method: "POST", Path: "/", Headers: map[string]string{"X-Empty": "yes"}}
	two := Operation{Method: "POST", Path: "/", Headers: map[string]string{"X-Large": "yes"}}
	require.NotEqual(t, one.String(), two.String())
}

// A server may repeat the value of a cookie in its own words.
func TestValueOfACookieIsMasked(t *testing.T) {
	report := judge(t, benign{
		front: rewriting(func(r *http.Request, a *httptest.ResponseRecorder) {
			if c, err := r.Cookie("session"); err == nil {
				a.Code = http.StatusInternalServerError
				a.Body.Reset()
				fmt.Fprintf(a.Body, "the session %s is over", c.Value)
			}
		}),
		target: func(target *Target, _ *httptest.Server) {
			target.Operation.Headers["Cookie"] = "theme=dark; session=very-secret"
		},
	}, slugBaseline)
	var text strings.Builder
	require.NoError(t, report.WriteText(&text))
	require.Contains(t, text.String(), "the session *** is over")
	require.NotContains(t, text.String(), "very-secret")
}

// The lock of a handler that died stays. Neither a gateway's response in between nor an unusual status hides that.
func TestLockThatStaysIsFoundByAnyStatus(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ meanwhile, locked int }{
		"behind a gateway": {http.StatusBadGateway, http.StatusConflict},
		"423":              {0, http.StatusLocked},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			requests := map[string]int{}
			report := judge(t, benign{front: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					key := r.Header.Get("Idempotency-Key")
					mu.Lock()
					if r.Header.Get("X-Fault") == "crash" || requests[key] > 0 {
						requests[key]++
					}
					n := requests[key]
					mu.Unlock()
					switch {
					case n == 0:
						next.ServeHTTP(w, r)
					case n == 1:
						panic(http.ErrAbortHandler)
					case n == 2 && c.meanwhile != 0:
						w.WriteHeader(c.meanwhile)
					default:
						w.WriteHeader(c.locked)
					}
				})
			}}, "fault-crash")
			require.Equal(t, []string{"fault-crash"}, broken(report), trouble(report))
		})
	}
}

// A gateway whose server is down shows nothing about its keys.
func TestServerThatStaysDownBehindAGatewayBreaksNoRule(t *testing.T) {
	t.Parallel()
	var down sync.Map
	report := judge(t, benign{
		front: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				key := r.Header.Get("Idempotency-Key")
				if r.Header.Get("X-Fault") == "crash" {
					down.Store(key, true)
				}
				if _, ok := down.Load(key); ok {
					w.WriteHeader(http.StatusBadGateway)
					return
				}
				next.ServeHTTP(w, r)
			})
		},
		target: func(target *Target, _ *httptest.Server) { target.Crash.Lease = Duration(100 * time.Millisecond) },
	}, "fault-crash")
	res, _ := report.Result("fault-crash")
	require.Equal(t, Inconclusive, res.Verdict, trouble(report))
	require.Contains(t, res.Reason, "a gateway in front of it, was down")
}
