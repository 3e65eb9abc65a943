package server_test

import (
	"context"
	"encoding/csv"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

func TestReplay(t *testing.T) {
	t.Run("the same request again gets the same response and runs nothing", func(t *testing.T) {
		g := newRig(t, memstore.New(), nil, server.Required())
		requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
		for range 3 {
			w := g.do()
			requireReplayed(t, w, 201, `{"id":"rf_123"}`)
			require.Equal(t, "application/json", w.Header().Get("Content-Type"))
		}
		require.Equal(t, 1, g.ran())
	})
	t.Run("another key runs anew", func(t *testing.T) {
		g := newRig(t, memstore.New(), nil)
		requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
		requireStored(t, g.do(withKey("k2")), 201, `{"id":"rf_123"}`)
		require.Equal(t, 2, g.ran())
	})
	t.Run("after the retention the key is new", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, memstore.New(), nil, server.Retention(time.Hour))
			g.do()
			time.Sleep(time.Hour - time.Nanosecond)
			requireReplayed(t, g.do(), 201, `{"id":"rf_123"}`)
			time.Sleep(time.Nanosecond)
			requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
		})
	})
	t.Run("a replay takes one round trip", func(t *testing.T) {
		st := newFaults(nil)
		g := newRig(t, st, nil)
		g.do()
		require.Equal(t, map[string]int{"Reserve": 1, "Complete": 1}, st.calls)
		g.do()
		require.Equal(t, map[string]int{"Reserve": 2, "Complete": 1}, st.calls)
	})
	t.Run("authorization that was revoked since gets no replay", func(t *testing.T) {
		allowed := true
		g := newRig(t, memstore.New(), nil)
		inner := g.Handler
		g.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !allowed {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			inner.ServeHTTP(w, r)
		})
		requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
		allowed = false
		require.Equal(t, 403, g.do().Code)
	})
}

// The project's own table of replays: each row is a request in order, and its result.
func TestReplayOutcomes(t *testing.T) {
	f, err := os.Open("testdata/replay_outcomes.csv")
	require.NoError(t, err)
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"key", "payload_hash", "status", "http_code", "result_id", "notes"}, rows[0])
	require.Len(t, rows, 4)

	g := newRig(t, memstore.New(), nil, server.Required())
	for _, row := range rows[1:] {
		key, payload, code, result, notes := row[0], row[1], row[3], row[4], row[5]
		w := g.do(withKey(key), withBody(payload))
		require.Equal(t, code, strconv.Itoa(w.Code), notes)
		switch notes {
		case "created":
			requireStored(t, w, 201, `{"id":"`+result+`"}`)
		case "replayed":
			requireReplayed(t, w, 201, `{"id":"`+result+`"}`)
		case "payload mismatch":
			requireProblem(t, w, 409, "CONFLICT.idempotency.payload_mismatch")
		default:
			t.Fatalf("a row that this test does not know: %q", row)
		}
	}
	require.Equal(t, 1, g.ran())
}

func TestMismatch(t *testing.T) {
	for _, c := range []struct {
		rule string
		edit func(*http.Request)
	}{
		{"another body", withBody(`{"amount":1001}`)},
		{"no body", withBody("")},
		{"another path of the same route", func(r *http.Request) { r.URL.Path = "/refunds/ch_2" }},
		{"another query", func(r *http.Request) { r.URL.RawQuery = "dry=1" }},
		{"another method", withMethod("PATCH")},
	} {
		t.Run(c.rule+" under the same key is refused and never run", func(t *testing.T) {
			g := newRig(t, memstore.New(), nil)
			g.do()
			p := requireProblem(t, g.do(c.edit), 409, "CONFLICT.idempotency.payload_mismatch")
			require.False(t, p.Retryable)
			require.Equal(t, 1, g.ran())
			requireReplayed(t, g.do(), 201, `{"id":"rf_123"}`)
		})
	}
	t.Run("the IETF status is 422", func(t *testing.T) {
		g := newRig(t, memstore.New(), nil, server.IETFStatuses())
		g.do()
		p := requireProblem(t, g.do(withBody("x")), 422, "CONFLICT.idempotency.payload_mismatch")
		require.Contains(t, p.Detail, "Send that request again, or send this one under a new key.")
	})
	t.Run("a mismatch wins over in flight", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, memstore.New(), slow(time.Minute/2), server.Wait(time.Hour))
			first := g.start()
			requireProblem(t, g.do(withBody("x")), 409, "CONFLICT.idempotency.payload_mismatch")
			requireStored(t, <-first, 201, `{"id":"rf_123"}`)
		})
	})
}

func TestMethods(t *testing.T) {
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "TRACE", "QUERY", "PUT", "DELETE"} {
		t.Run(method+" reserves nothing by default, with a key or without", func(t *testing.T) {
			st := newFaults(nil)
			g := newRig(t, st, nil, server.Required())
			require.Equal(t, 201, g.do(withMethod(method)).Code)
			require.Equal(t, 201, g.do(withMethod(method), without("Idempotency-Key")).Code)
			require.Equal(t, 2, g.ran())
			require.Empty(t, st.calls)
		})
	}
	t.Run("PUT and DELETE do by choice", func(t *testing.T) {
		g := newRig(t, memstore.New(), nil, server.Methods("PUT", "DELETE"))
		for _, method := range []string{"PUT", "DELETE"} {
			requireStored(t, g.do(withMethod(method), withKey(method)), 201, `{"id":"rf_123"}`)
			requireReplayed(t, g.do(withMethod(method), withKey(method)), 201, `{"id":"rf_123"}`)
		}
		require.Empty(t, g.do().Header().Get("Idempotency-Status"), "POST is no longer covered")
	})
}

func TestKeyless(t *testing.T) {
	t.Run("is refused where a key is required", func(t *testing.T) {
		g := newRig(t, memstore.New(), nil, server.Required())
		p := requireProblem(t, g.do(without("Idempotency-Key")), 400, "VALIDATION.idempotency_key.missing")
		require.False(t, p.Retryable)
		require.Zero(t, g.ran())
	})
	t.Run("runs plainly elsewhere: no capture, no deadline, no record", func(t *testing.T) {
		st := newFaults(nil)
		var same bool
		outer := httptest.NewRecorder()
		g := newRig(t, st, func(w http.ResponseWriter, r *http.Request) {
			same = w == http.ResponseWriter(outer)
			_, limited := r.Context().Deadline()
			require.False(t, limited)
			require.Empty(t, server.Key(r.Context()))
			server.Applied(r.Context())
			require.NoError(t, server.Checkpoint(r.Context(), []byte("x")))
			created(w, r)
		})
		g.ServeHTTP(outer, request(t.Context(), without("Idempotency-Key")))
		require.True(t, same)
		require.Equal(t, 201, outer.Code)
		require.Empty(t, st.calls)
	})
}

func TestMalformedKeys(t *testing.T) {
	for rule, lines := range map[string][]string{
		"empty": {""}, "too long": {strings.Repeat("k", 256)}, "control byte": {"a\x00"}, "not ASCII": {"é"},
		"bad quoting": {`"a`}, "bad escape": {`"\x"`}, "two keys": {"a", "b"}, "list of two": {`"a", "b"`},
	} {
		for _, opts := range [][]server.Option{nil, {server.Required()}} {
			t.Run(rule+" is 400 and runs nothing", func(t *testing.T) {
				g := newRig(t, memstore.New(), nil, opts...)
				requireProblem(t, g.do(func(r *http.Request) {
					r.Header["Idempotency-Key"] = lines
				}), 400, "VALIDATION.idempotency_key.malformed")
				require.Zero(t, g.ran())
			})
		}
	}
	t.Run("quoted and bare are the same key", func(t *testing.T) {
		g := newRig(t, memstore.New(), nil)
		requireStored(t, g.do(withKey("abc")), 201, `{"id":"rf_123"}`)
		requireReplayed(t, g.do(withKey(`"abc"`)), 201, `{"id":"rf_123"}`)
		requireReplayed(t, g.do(withKey(`"abc";v=1`)), 201, `{"id":"rf_123"}`)
	})
}

func slow(d time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(d)
		created(w, r)
	}
}

func TestAStoreWithoutAVerdictIsUnavailable(t *testing.T) {
	g := newRig(t, mute{memstore.New()}, nil)
	requireProblem(t, g.do(), 503, "DEPENDENCY.unavailable")
	require.Zero(t, g.ran())
}

// A mute store gives no verdict.
type mute struct{ store.Store }

func (mute) Reserve(context.Context, store.Claim) (store.Grant, error) { return store.Grant{}, nil }
