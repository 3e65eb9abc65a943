package gateway_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/gateway"
	"github.com/redo-go/redo/store/memstore"
)

// A request that is streamed is neither stored nor replayed.
func TestBodyOverTheLimitIsStreamed(t *testing.T) {
	for _, c := range []struct {
		rule   string
		length int
		known  bool
		sent   int
	}{
		{"at the limit", 10, true, 1},
		{"over the limit", 11, true, 2},
		{"of unknown length at the limit", 10, false, 1},
		{"of unknown length over the limit", 11, false, 2},
		{"empty", 0, true, 1},
	} {
		t.Run(c.rule, func(t *testing.T) {
			var bodies, keys []string
			g := local(t, memstore.New(), func(r *http.Request) (*http.Response, error) {
				var b []byte
				if r.Body != nil {
					var err error
					b, err = io.ReadAll(r.Body)
					require.NoError(t, err)
				}
				bodies, keys = append(bodies, string(b)), append(keys, r.Header.Get("Idempotency-Key"))
				return respond(http.StatusCreated)(r)
			}, gateway.MaxBuffered(10))
			body := strings.Repeat("x", c.length)
			for range 2 {
				r := httptest.NewRequest(http.MethodPost, "/v1/refunds", strings.NewReader(body))
				r.Header = http.Header{"X-User": {"ann"}, "Idempotency-Key": {"k1"}}
				if !c.known {
					r.ContentLength = -1
				}
				w := httptest.NewRecorder()
				g.ServeHTTP(w, r)
				require.Equal(t, http.StatusCreated, w.Code)
			}
			require.Len(t, bodies, c.sent)
			for i := range bodies {
				require.Equal(t, body, bodies[i])
				require.Equal(t, keys[0], keys[i])
			}
		})
	}
}

// The upstream gets each part as it arrives. So a request that fails can't be sent again, also one of less than the
// client's own limit of 1 MiB.
func TestBodyOverTheLimitIsSentOnce(t *testing.T) {
	for length, sent := range map[int]int{10: 3, 11: 1} {
		for _, key := range []string{"k1", ""} {
			var bodies []string
			g := local(t, memstore.New(), func(r *http.Request) (*http.Response, error) {
				b, err := io.ReadAll(r.Body)
				require.NoError(t, err)
				bodies = append(bodies, string(b))
				return respond(http.StatusServiceUnavailable)(r)
			}, gateway.MaxBuffered(10), gateway.Client(redo.WithRetry(redo.RetryPolicy{
				MaxAttempts: 3, BaseDelay: time.Nanosecond, Jitter: redo.NoDelay,
			})))
			r := httptest.NewRequest(http.MethodPost, "/v1/photos", strings.NewReader(strings.Repeat("x", length)))
			r.Header = http.Header{"X-User": {"ann"}}
			if key != "" {
				r.Header.Set("Idempotency-Key", key)
			}
			w := httptest.NewRecorder()
			g.ServeHTTP(w, r)
			require.Equal(t, http.StatusServiceUnavailable, w.Code)
			require.Equal(t, slices.Repeat([]string{strings.Repeat("x", length)}, sent), bodies, "%d bytes, key %q", length, key)
		}
	}
}

func TestUpstreamSeesThePhoneButNotItsKey(t *testing.T) {
	for _, method := range []string{"GET", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"} {
		var seen http.Header
		g := local(t, memstore.New(), func(r *http.Request) (*http.Response, error) {
			seen = r.Header
			return respond(http.StatusOK)(r)
		})
		r := httptest.NewRequest(method, "http://gateway.example/v1/refunds", nil)
		r.Header = http.Header{"X-User": {"ann"}, "Idempotency-Key": {"k1"}, "X-Forwarded-Host": {"forged.example"}}
		g.ServeHTTP(httptest.NewRecorder(), r)
		require.NotContains(t, seen.Values("Idempotency-Key"), "k1")
		require.Equal(t, []string{"gateway.example"}, seen.Values("X-Forwarded-Host"))
		require.Equal(t, []string{"192.0.2.1"}, seen.Values("X-Forwarded-For"))
	}
}

// The response to a request without a key is not recorded, so that the phone gets each part as it arrives.
func TestResponseIsStreamedWithoutAKey(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		synctest.Test(t, func(t *testing.T) {
			body, upstream := io.Pipe()
			g := local(t, memstore.New(), func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusOK, Body: body, ContentLength: -1, Request: r}, nil
			})
			phone, done := httptest.NewRecorder(), make(chan struct{})
			go func() {
				g.ServeHTTP(phone, httptest.NewRequest(method, "/v1/events", http.NoBody))
				close(done)
			}()
			_, err := io.WriteString(upstream, "first,")
			require.NoError(t, err)
			synctest.Wait()
			require.Equal(t, "first,", phone.Body.String(), method)
			_, err = io.WriteString(upstream, "second")
			require.NoError(t, err)
			require.NoError(t, upstream.Close())
			<-done
			require.Equal(t, "first,second", phone.Body.String(), method)
		})
	}
}

func TestLongBodyNeedsNoKey(t *testing.T) {
	g := local(t, memstore.New(), respond(http.StatusCreated), gateway.MaxBuffered(10))
	require.Equal(t, http.StatusCreated, post(g, "more than ten bytes", "X-Request-Id", "r1").Code)
}

func TestMalformedKeyIsRefused(t *testing.T) {
	g := local(t, memstore.New(), respond(http.StatusCreated), gateway.MaxBuffered(10))
	for _, body := range []string{"{}", "a longer body, which is streamed"} {
		w := post(g, body, "Idempotency-Key", `"k1`)
		require.Equal(t, http.StatusBadRequest, w.Code)
		require.Contains(t, w.Body.String(), "VALIDATION.idempotency_key.malformed")
	}
}

func TestRequestIDIsAKeyOnlyWithoutAnother(t *testing.T) {
	for _, c := range []struct {
		rule   string
		first  []string
		second []string
		sent   int
	}{
		{"the same id", []string{"X-Request-Id", "r1"}, []string{"X-Request-Id", "r1"}, 1},
		{"ids that are no keys", []string{"X-Request-Id", "é"}, []string{"X-Request-Id", "é"}, 2},
		{
			"a key counts before an id", []string{"X-Request-Id", "r1", "Idempotency-Key", "k1"},
			[]string{"X-Request-Id", "r2", "Idempotency-Key", "k1"}, 1,
		},
	} {
		t.Run(c.rule, func(t *testing.T) {
			sent := 0
			g := local(t, memstore.New(), func(r *http.Request) (*http.Response, error) {
				sent++
				return respond(http.StatusCreated)(r)
			}, gateway.RequestID("X-Request-Id"))
			for _, header := range [][]string{c.first, c.second} {
				require.Equal(t, http.StatusCreated, post(g, "{}", header...).Code)
			}
			require.Equal(t, c.sent, sent)
		})
	}
}

// Under HTTP/3 there is no net/http server, without which httputil.ReverseProxy ends a response that broke off as if it
// were whole.
func TestAResponseThatBreaksOffIsNeverPassedOnAsWhole(t *testing.T) {
	g := local(t, memstore.New(), func(r *http.Request) (*http.Response, error) {
		resp, err := respond(http.StatusOK)(r)
		resp.ContentLength = -1
		resp.Body = io.NopCloser(io.MultiReader(strings.NewReader("half"), iotest.ErrReader(io.ErrUnexpectedEOF)))
		return resp, err
	}, gateway.MaxBuffered(10))
	for rule, req := range map[string]*http.Request{
		"of a safe request":          httptest.NewRequest(http.MethodGet, "/v1/refunds", nil),
		"of a request without a key": httptest.NewRequest(http.MethodPost, "/v1/refunds", strings.NewReader("{}")),
		"of a long request": func() *http.Request {
			r := httptest.NewRequest(http.MethodPost, "/v1/refunds", strings.NewReader("more than ten bytes"))
			r.Header = http.Header{"X-User": {"ann"}, "Idempotency-Key": {"k1"}}
			return r
		}(),
	} {
		t.Run(rule, func(t *testing.T) {
			require.PanicsWithValue(t, http.ErrAbortHandler, func() { g.ServeHTTP(httptest.NewRecorder(), req) })
		})
	}
}
