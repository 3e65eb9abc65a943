package conformance

import (
	"compress/gzip"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/racetest"
)

var quietLog = log.New(io.Discard, "", 0)

// A mutant proves that a wrong server fails. A benign variant proves that a right server that differs from ours
// passes.
func TestEachBenignVariantConforms(t *testing.T) {
	racetest.Repeats(t) // TestReferencePassesInEveryStoreModeAndProfile runs each case
	t.Parallel()        // runs spend their time waiting
	all := benigns()
	targets := make([]Target, len(all))
	for i, b := range all {
		targets[i] = b.start(t)
	}
	reports := runAll(t, targets, Seed(1))
	for i, b := range all {
		t.Run(b.name, func(t *testing.T) {
			report := reports[i]
			t.Log(time.Duration(report.Micros) * time.Microsecond)
			found := broken(report)
			require.Subset(t, found, b.warns, "%s", trouble(report))
			require.Subset(t, slices.Concat(b.warns, b.may), found, "%s", trouble(report))
			require.Zero(t, report.ExitCode(false), "%s", trouble(report))
			require.Subset(t, passed(report), b.passes)
			for _, v := range []Verdict{Fail, Inconclusive, Blocked, Harness} {
				require.Zero(t, report.Count()[v], "%s: %s", v, trouble(report))
			}
		})
	}
}

func passed(r Report) (slugs []string) {
	for _, res := range r.Results {
		if res.Verdict == Pass {
			slugs = append(slugs, res.Slug)
		}
	}
	return slugs
}

// trouble lists the cases that did not pass.
func trouble(r Report) string {
	var b strings.Builder
	for _, res := range r.Results {
		switch res.Verdict {
		case Pass, Skip, Info:
		default:
			fmt.Fprintf(&b, "%s\n", res)
		}
	}
	if r.Stopped != nil {
		fmt.Fprintf(&b, "stopped: %s\n", r.Stopped.Message)
	}
	return b.String()
}

// perTenant counts the effects of each principal separately, so that one principal's counter misses the other's.
func perTenant(r *http.Request, o order) string { return principal(r) + "/" + o.Account }

func benigns() []benign {
	return []benign{
		{name: "the draft's own statuses"},
		{
			name: "replays with 200", warns: []string{"replay-status"},
			peer: func(p *peer) { p.replayed = http.StatusOK },
		},
		{
			name: "one counter per tenant",
			peer: func(p *peer) { p.account = perTenant },
			target: func(t *Target, _ *httptest.Server) {
				t.Effects.URL = "/effects?account=alice-secret/{{case}}"
				t.Get.Path, t.Query.Path = t.Effects.URL, t.Effects.URL
			},
		},
		{
			name: "a second operation and a PATCH that are counted elsewhere",
			peer: func(p *peer) {
				p.perRoute = true
				p.account = func(r *http.Request, o order) string {
					if r.URL.Path == "/refunds" || r.Method == http.MethodPatch {
						return "elsewhere"
					}
					return o.Account
				}
			},
		},
		{
			name: "a PATCH that has no effect and says only that it is done",
			peer: func(p *peer) {
				p.perRoute = true
				p.account = func(r *http.Request, o order) string {
					if r.Method == http.MethodPatch {
						return "nobody"
					}
					return o.Account
				}
				p.respond = func(w http.ResponseWriter, r *http.Request, o order, id string) {
					if r.Method == http.MethodPatch {
						_, _ = io.WriteString(w, `{"done":true}`)
						return
					}
					peerOrder(w, r, o, id)
				}
			},
		},
		{
			name:   "effects are the ids in responses, with empty and large ones",
			target: func(t *Target, _ *httptest.Server) { t.Effects = &Effects{ResponseID: "id"} },
		},
		{
			name: "ids start anew for each tenant and operation",
			peer: func(p *peer) {
				var mu sync.Mutex
				n := map[string]int{}
				p.perRoute = true
				p.respond = func(w http.ResponseWriter, r *http.Request, o order, _ string) {
					mu.Lock()
					scope := principal(r) + r.URL.Path + r.Method
					n[scope]++
					id := n[scope]
					mu.Unlock()
					peerOrder(w, r, o, strconv.Itoa(id))
				}
			},
			target: func(t *Target, _ *httptest.Server) { t.Effects = &Effects{ResponseID: "id"} },
		},
		{
			name:  "a token bucket of 20 requests a second",
			front: tokenBucket,
		},
		{
			name:  "six requests at a time, and 503 without Retry-After for the others",
			front: atMost(6),
		},
		{
			name: "a mismatch is seen only after the first request has ended",
			peer: func(p *peer) { p.late = true },
		},
		{
			name: "a mismatch is 409", warns: []string{"mismatch-body"},
			peer: func(p *peer) { p.mismatch = http.StatusConflict },
		},
		{
			name: "a mismatch is 400", warns: []string{"mismatch-body"},
			peer: func(p *peer) { p.mismatch = http.StatusBadRequest },
		},
		{
			name: "a key in use is 423", warns: []string{"conc-one-effect"}, may: []string{"conc-inflight", "conc-history"},
			peer: func(p *peer) { p.inFlight = http.StatusLocked },
		},
		{
			name: "a key in use is 429", may: []string{"conc-inflight"},
			peer: func(p *peer) { p.inFlight = http.StatusTooManyRequests },
		},
		{
			name: "the key is optional",
			peer: func(p *peer) { p.optional = true },
		},
		{
			name: "keys are quoted",
			peer: func(p *peer) { p.quoted = true },
		},
		{
			name: "keys are bare UUIDs",
			peer: func(p *peer) { p.uuid = true },
		},
		{
			name: "a key belongs to its route",
			peer: func(p *peer) { p.perRoute = true },
		},
		{
			name: "duplicates wait",
			peer: func(p *peer) { p.waits = true },
		},
		{
			name: "202 with the URL of its status, and the effect later",
			peer: func(p *peer) {
				p.delay = 300 * time.Millisecond
				p.respond = func(w http.ResponseWriter, r *http.Request, o order, id string) {
					if r.URL.Path != "/orders" {
						peerOrder(w, r, o, id)
						return
					}
					w.Header().Set("Location", "/operations/"+id)
					w.WriteHeader(http.StatusAccepted)
					fmt.Fprintf(w, `{"status":"pending","operation":%q}`, id)
				}
			},
		},
		{
			name: "a slow start",
			front: func(next http.Handler) http.Handler {
				var once sync.Once
				var ready time.Time
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					once.Do(func() { ready = time.Now().Add(time.Second) })
					if time.Now().Before(ready) {
						w.Header().Set("Retry-After", "1")
						http.Error(w, "starting", http.StatusServiceUnavailable)
						return
					}
					next.ServeHTTP(w, r)
				})
			},
		},
		{
			name:   "the slow operation takes twice the time that it takes at least",
			passes: []string{"independent-keys"},
			front: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get("X-Slow") != "" {
						time.Sleep(slowness)
					}
					next.ServeHTTP(w, r)
				})
			},
		},
		{
			name: "a fault is 503 with Retry-After",
			front: rewriting(func(_ *http.Request, a *httptest.ResponseRecorder) {
				if a.Code == http.StatusInternalServerError {
					a.Code = http.StatusServiceUnavailable
					a.Header().Set("Retry-After", "1")
				}
			}),
		},
		{
			name: "idle connections are closed",
			listen: func(srv *httptest.Server) {
				srv.Config.IdleTimeout = time.Millisecond
				srv.Config.SetKeepAlivesEnabled(false)
			},
		},
		{
			name:   "HTTP/2 over TLS",
			listen: func(srv *httptest.Server) { srv.EnableHTTP2 = true },
		},
		{
			name:  "compression without being asked",
			front: compressing,
		},
		{
			name: "another header name",
			peer: func(p *peer) { p.header = "X-Request-Key" },
		},
		{
			name: "an error format of its own", warns: []string{"key-missing", "mismatch-problem"},
			peer: func(p *peer) { p.problems = false },
		},
		{
			name: "one request at a time",
			peer: func(p *peer) { p.waits = true },
			front: func(next http.Handler) http.Handler {
				var mu sync.Mutex
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					mu.Lock()
					defer mu.Unlock()
					next.ServeHTTP(w, r)
				})
			},
		},
		{
			name:   "browsers may do everything",
			front:  (&cors{origin: "*", headers: "*", methods: "*"}).around,
			target: func(t *Target, _ *httptest.Server) { t.Origin = shopOrigin },
		},
		{
			name:   "browsers may do what is listed, in small letters",
			peer:   func(p *peer) { p.optional = true },
			front:  (&cors{origin: shopOrigin, headers: "authorization,content-type, idempotency-key"}).around,
			target: func(t *Target, _ *httptest.Server) { t.Origin = shopOrigin },
		},
		{
			name: "the retention is advertised with each response",
			front: rewriting(func(_ *http.Request, a *httptest.ResponseRecorder) {
				a.Header().Set("X-Key-Lifetime",
					"86400")
			}),
			target: func(t *Target, _ *httptest.Server) {
				t.Advertised = &Advertised{Operation: *t.Get, Header: "X-Key-Lifetime"}
			},
		},
		{
			name: "keys have no underscores",
			peer: func(p *peer) { p.letters = true },
		},
		{
			name:   "no length is published, and long keys are refused",
			target: func(t *Target, _ *httptest.Server) { t.Key.MaxLength = 0 },
		},
		{
			name: "no length is published, and long keys are too much for the server",
			front: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if len(r.Header.Get("Idempotency-Key")) > 255 {
						w.WriteHeader(http.StatusRequestHeaderFieldsTooLarge)
						return
					}
					next.ServeHTTP(w, r)
				})
			},
			target: func(t *Target, _ *httptest.Server) { t.Key.MaxLength = 0 },
		},
		{
			name: "selected elements of the payload are compared", warns: []string{slugMismatch},
			peer: func(p *peer) { p.parts = true },
		},
		{
			name: "pages of other sites are refused, and clients of other networks",
			front: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get("Origin") != "" || r.Header.Get("X-Forwarded-For") != "" {
						http.Error(w, "who are you", http.StatusForbidden)
						return
					}
					next.ServeHTTP(w, r)
				})
			},
		},
		{
			name:  "two nodes that name themselves, and say until when a response is fresh",
			front: twoNodes,
		},
		{
			name: "headers of each response by itself",
			front: rewriting(func(_ *http.Request, a *httptest.ResponseRecorder) {
				a.Header().Set("Server-Timing", "app;dur="+strconv.Itoa(a.Body.Len()))
				a.Header().Set("X-Correlation-Id", freshKey())
				a.Header().Set("X-Served-By", freshKey())
				a.Header().Set("RateLimit-Remaining", freshKey())
			}),
		},
	}
}

// twoNodes names one of two nodes in each response. Each response has its own time.
func twoNodes(next http.Handler) http.Handler {
	var n atomic.Int64
	return rewriting(func(_ *http.Request, a *httptest.ResponseRecorder) {
		a.Header().Set("X-Acme-Node", string(rune('a'+n.Add(1)/2%2)))
		a.Header().Set("Expires", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
		a.Header().Set("Age", strconv.Itoa(int(n.Load())))
		a.Header().Set("X-Cache-Status", map[bool]string{true: "HIT", false: "MISS"}[n.Load()%3 > 0])
	})(next)
}

// tokenBucket lets 20 requests a second through, and refuses the others with 429.
func tokenBucket(next http.Handler) http.Handler {
	const rate, burst = 20, 20
	var mu sync.Mutex
	tokens, last := float64(burst), time.Now()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		now := time.Now()
		tokens = min(burst, tokens+now.Sub(last).Seconds()*rate)
		last = now
		ok := tokens >= 1
		if ok {
			tokens--
		}
		mu.Unlock()
		if !ok {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "slow down", http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// compressing compresses each response that may be compressed: without Accept-Encoding any coding is acceptable.
func compressing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := newRecorder(w)
		next.ServeHTTP(rec, r)
		accepts := r.Header.Get("Accept-Encoding")
		if rec.Code == http.StatusNoContent || accepts != "" && accepts != "gzip" {
			rec.flush()
			return
		}
		copyHeader(w.Header(), rec.Header())
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Vary", "Accept-Encoding")
		w.WriteHeader(rec.Code)
		zw := gzip.NewWriter(w)
		_, _ = zw.Write(rec.Body.Bytes())
		_ = zw.Close()
	})
}
