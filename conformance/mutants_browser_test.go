package conformance

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/taxonomy"
)

const shopOrigin = "https://page.example"

// cors serves browsers in front of a server. Its fields are the values of Access-Control-Allow-Origin,
// Allow-Headers, Allow-Methods and Expose-Headers.
type cors struct{ origin, headers, methods, exposed string }

var openCORS = cors{
	origin: shopOrigin, headers: "Authorization, Content-Type, Idempotency-Key, X-Request-Key", methods: "POST, PATCH",
	exposed: "Location, Idempotent-Replayed, Idempotency-Status",
}

func (c *cors) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Origin") == "" {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Access-Control-Allow-Origin", c.origin)
		if r.Method == http.MethodOptions {
			w.Header().Set("Access-Control-Allow-Headers", c.headers)
			w.Header().Set("Access-Control-Allow-Methods", c.methods)
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header().Set("Access-Control-Expose-Headers", c.exposed)
		next.ServeHTTP(w, r)
	})
}

// onPreflight is the front of a defect about preflights.
func onPreflight(
	change func(w http.ResponseWriter, r *http.Request, next http.Handler),
) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodOptions {
				change(w, r, next)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

var browserMutants = []mutant{{
	name: "a page may not send the key", must: true,
	finds:  []string{"key-from-browser"},
	defect: func(l *lab) { l.cors.headers = "Authorization, Content-Type" },
}, {
	name: "a page may not read the response", must: true,
	finds:  []string{"key-from-browser"},
	defect: func(l *lab) { l.cors.origin = "https://other.example" },
}, {
	name:   "a page may not read the marker of a replay",
	finds:  []string{"key-from-browser"},
	defect: func(l *lab) { l.cors.exposed = "Location" },
}, {
	name: "a page may not use the method", must: true,
	finds: []string{"key-from-browser"},
	defect: func(l *lab) {
		l.cors.methods = "GET, POST"
		l.describe = func(t *Target) { t.Operation.Method, t.Patch = "PATCH", nil }
	},
}, {
	name: "a preflight needs a key", must: true,
	finds: []string{"cors-preflight"}, also: []string{"key-from-browser"},
	defect: func(l *lab) {
		l.front = onPreflight(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.Header.Get("Idempotency-Key") != "" || !refuse(w, http.StatusBadRequest, taxonomy.KeyMissing) {
				next.ServeHTTP(w, r)
			}
		})
	},
}, {
	name: "a preflight takes its key", must: true,
	finds: []string{"cors-preflight"},
	defect: func(l *lab) {
		m := newMemory()
		l.front = keyed(func(w http.ResponseWriter, r *http.Request, key string, _ []byte) bool {
			return m.first(key, r.Method) == http.MethodOptions && r.Method != http.MethodOptions &&
				refuse(w, http.StatusConflict, taxonomy.PayloadMismatch)
		})
	},
}, {
	name: "a preflight is answered from the record", must: true,
	finds: []string{"cors-preflight"},
	defect: func(l *lab) {
		m := newMemory()
		l.front = keyed(func(w http.ResponseWriter, r *http.Request, key string, _ []byte) bool {
			if r.Method != http.MethodOptions {
				m.put(key, "done")
				return false
			}
			if m.get(key) == "" {
				return false
			}
			w.Header().Set("Idempotent-Replayed", "true")
			_, _ = io.WriteString(w, `{"id":1}`)
			return true
		})
	},
}, {
	name: "QUERY needs a key", must: true,
	finds: []string{"method-query"},
	defect: func(l *lab) {
		l.front = rerouting(func(w http.ResponseWriter, r *http.Request, key string, _ []byte) bool {
			return r.Method == "QUERY" && key == "" && refuse(w, http.StatusBadRequest, taxonomy.KeyMissing)
		})
	},
}, {
	name: "a QUERY with a key is recorded", must: true,
	finds:  []string{"method-query"},
	defect: func(l *lab) { l.front = replayingFirst(func(r *http.Request) bool { return r.Method == "QUERY" }) },
}, {
	name: "a QUERY takes its key", must: true,
	finds: []string{"method-query"},
	defect: func(l *lab) {
		m := newMemory()
		l.front = keyed(func(w http.ResponseWriter, r *http.Request, key string, _ []byte) bool {
			return m.first(key, r.Method) == "QUERY" && r.Method != "QUERY" &&
				refuse(w, http.StatusConflict, taxonomy.PayloadMismatch)
		})
	},
}}

var lifetimeMutants = []mutant{{
	name: "the retention is advertised in words", must: true,
	finds:  []string{"lifetime-advertised"},
	defect: func(l *lab) { l.lifetime = "a day" },
}, {
	name: "keys are kept for half of the time that is advertised", must: true,
	finds: []string{"lifetime-advertised"}, also: []string{"*"},
	defect: func(l *lab) {
		forgetting(func(age time.Duration, _ int) bool { return age > 3*time.Second })(l)
		l.lifetime = "PT6S"
	},
}, {
	name: "the retention is shorter than the profile's", must: true,
	finds: []string{"lifetime-advertised"},
	defect: func(l *lab) {
		l.lifetime = "3600"
		l.describe = func(t *Target) {
			p, _ := profileNamed("redo")
			p.Retention = Duration(24 * time.Hour)
			t.CustomProfile = &p
		}
	},
}}

// A short time is waited for. Each has a server that keeps its keys for that time and no longer.
func TestKeysAreKeptAsLongAsIsAdvertised(t *testing.T) {
	t.Parallel() // runs spend their time waiting
	for name, where := range map[string]Advertised{
		"in the document": {Member: "idempotency.replay_ttl_seconds"},
		"in a header":     {Header: "X-Key-Lifetime"},
	} {
		p := newPeer()
		p.retention, p.allExpire = 2*time.Second, true
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Key-Lifetime", "PT2S")
			if r.URL.Path == "/capabilities" {
				_, _ = io.WriteString(w, `{"idempotency":{"replay_ttl_seconds":2}}`)
				return
			}
			p.ServeHTTP(w, r)
		}))
		t.Cleanup(srv.Close)
		where.Operation = Operation{Method: "GET", Path: "/capabilities"}
		target := peerTarget(srv.URL)
		target.Advertised, target.Expiring = &where, nil
		report, err := Run(t.Context(), target, Only("ctl", "lifetime", "expiry", "late-replay"))
		require.NoError(t, err, name)
		require.Zero(t, report.ExitCode(true), "%s: %s", name, trouble(report))
		for slug, want := range map[string]Verdict{"lifetime-advertised": Pass, "expiry": Pass, "late-replay": Skip} {
			res, _ := report.Result(slug)
			require.Equal(t, want, res.Verdict, "%s: %s", name, res)
		}
	}
}

func TestALongAdvertisedTimeIsNotSaidToBeTried(t *testing.T) {
	report, err := Run(t.Context(), newLab(t).start().target(), Only("ctl", "lifetime-advertised"))
	require.NoError(t, err)
	res, _ := report.Result("lifetime-advertised")
	require.Equal(t, Pass, res.Verdict)
	require.Len(t, res.Findings, 1)
	require.Contains(t, res.Findings[0].Actual, "24h0m0s is too long to wait for")
}
