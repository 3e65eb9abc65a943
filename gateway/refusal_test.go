package gateway_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/gateway"
	"github.com/redo-go/redo/limit"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// local returns a gateway whose upstream is a function, for virtual time. It makes one attempt.
func local(t *testing.T, st store.Store, up roundTrip, opts ...gateway.Option) *gateway.Gateway {
	t.Helper()
	once := redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1, AttemptTimeout: 20 * time.Second})
	opts = append([]gateway.Option{
		gateway.Principal(user), gateway.Secret(secret), gateway.Client(redo.WithTransport(up), once),
	}, opts...)
	g, err := gateway.New(&url.URL{Scheme: "http", Host: "upstream.example"}, st, opts...)
	require.NoError(t, err)
	return g
}

// post sends a request of ann with the key k1, or the header.
func post(g http.Handler, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/v1/refunds", strings.NewReader(body))
	r.Header = http.Header{"X-User": {"ann"}}
	if header == nil {
		header = []string{"Idempotency-Key", "k1"}
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	return w
}

func respond(status int, header ...string) roundTrip {
	return func(r *http.Request) (*http.Response, error) {
		h := http.Header{}
		for i := 0; i+1 < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return &http.Response{StatusCode: status, Header: h, Body: http.NoBody, Request: r}, nil
	}
}

// shut is a breaker that lets nothing through.
type shut struct{}

func (shut) Allow(string) (func(limit.Health), error) { return nil, limit.ErrBreakerOpen }

func TestProblemShowsWhyThereIsNoResponse(t *testing.T) {
	reset := func(*http.Request) (*http.Response, error) { return nil, errors.New("connection reset by peer") }
	blocked := []gateway.Option{gateway.Client(redo.WithBreaker(shut{}))}
	refused := func(*http.Request) (*http.Response, error) {
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	}
	for _, c := range []struct {
		rule   string
		up     roundTrip
		opts   []gateway.Option
		keyed  bool
		status int
		detail string
	}{
		{"unknown", reset, nil, true, 502, "gave no complete response"},
		{"not reached", refused, nil, false, 502, "Nothing was done"},
		{"not reached with a key, which may be in use", refused, nil, true, 502, "gave no complete response"},
		{"timeout", func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}, nil, true, 504, "gave no complete response"},
		{"breaker", reset, blocked, true, 503, "gave no complete response"},
		{"unknown host with a key, which Run continues", func(*http.Request) (*http.Response, error) {
			return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}
		}, nil, true, 503, "gave no complete response"},
		{"redirect to another origin with a key", respond(308, "Location", "http://other.example/"), nil, true, 503, ""},
	} {
		t.Run(c.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				header := map[bool][]string{false: {"X-Request-Id", "r1"}}[c.keyed]
				w := post(local(t, memstore.New(), c.up, c.opts...), "{}", header...)
				require.Equal(t, c.status, w.Code, w.Body)
				require.Contains(t, w.Body.String(), c.detail)
				require.Contains(t, w.Body.String(), `"retryable":true`)
				require.NotEmpty(t, w.Header().Get("Retry-After"))
			})
		})
	}
}

func TestRepetitionGetsTheResponseWhenItIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := local(t, memstore.New(), func(r *http.Request) (*http.Response, error) {
			time.Sleep(3333 * time.Millisecond)
			return respond(http.StatusCreated)(r)
		})
		go post(g, "{}")
		synctest.Wait()
		start := time.Now()
		require.Equal(t, http.StatusCreated, post(g, "{}").Code)
		require.Equal(t, 3333*time.Millisecond, time.Since(start), "the store wakes it")
	})
}

// A bare store reports no changes.
type bare struct{ store.Store }

func TestRepetitionReadsAStoreThatReportsNoChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		g := local(t, bare{memstore.New()}, func(r *http.Request) (*http.Response, error) {
			calls++
			time.Sleep(3 * time.Second)
			return respond(http.StatusCreated)(r)
		})
		go post(g, "{}")
		synctest.Wait()
		w := post(g, "{}")
		require.Equal(t, http.StatusCreated, w.Code)
		require.Equal(t, "replayed", w.Header().Get("Idempotency-Status"))
		require.Equal(t, 1, calls)
	})
}

func TestRepetitionWaitsAsLongAsTheOptionSays(t *testing.T) {
	for _, wait := range []time.Duration{0, 2 * time.Second, 12 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			g := local(t, memstore.New(), func(r *http.Request) (*http.Response, error) {
				time.Sleep(15 * time.Second)
				return respond(http.StatusCreated)(r)
			}, gateway.Wait(wait))
			first := make(chan int, 1)
			go func() { first <- post(g, "{}").Code }()
			synctest.Wait()
			start := time.Now()
			require.Equal(t, http.StatusConflict, post(g, "{}").Code)
			require.Equal(t, wait, time.Since(start))
			require.Equal(t, http.StatusCreated, <-first)
		})
	}
}

// The middleware has no record of the first request, for example because it expired.
func TestClientRefusesAnotherPayloadToo(t *testing.T) {
	st := memstore.New()
	reset := func(*http.Request) (*http.Response, error) { return nil, errors.New("connection reset by peer") }
	require.Equal(t, http.StatusBadGateway, post(local(t, st, reset), "{}").Code)
	pepper := gateway.Middleware(server.Pepper([]byte(strings.Repeat("p", 32))))
	g := local(t, st, respond(http.StatusCreated), pepper)
	for range 2 {
		w := post(g, `{"amount":1}`)
		require.Equal(t, http.StatusConflict, w.Code)
		require.Contains(t, w.Body.String(), "CONFLICT.idempotency.payload_mismatch")
		require.Contains(t, w.Body.String(), `"retryable":false`)
		require.Contains(t, w.Body.String(), "The key was used for another request.")
		require.Empty(t, w.Header().Get("Retry-After"))
		require.Empty(t, w.Header().Get("Idempotency-Status"))
	}
	require.Equal(t, http.StatusCreated, post(g, "{}").Code, "the key is the first payload's")
}

// kinds holds the kinds of the observed requests.
type kinds []server.Kind

func (k *kinds) ObserveRequest(_ context.Context, e server.Event)   { *k = append(*k, e.Kind) }
func (k *kinds) ObserveStore(_ context.Context, _ server.StoreCall) {}

func TestNextRequestTakesOverAnUnknownEffect(t *testing.T) {
	for name, c := range map[string]struct {
		up   roundTrip
		next server.Kind
	}{
		"no response":       {respond(0), server.TookOver},
		"a failed response": {respond(http.StatusInternalServerError), server.TookOver},
		"a failed response that claims a refusal": {
			respond(http.StatusInternalServerError, "Error-Code", "VALIDATION.bad_request"), server.TookOver,
		},
		"a refusal": {respond(http.StatusBadRequest), server.Replayed},
	} {
		t.Run(name, func(t *testing.T) {
			var seen kinds
			g := local(t, memstore.New(), func(r *http.Request) (*http.Response, error) {
				if resp, _ := c.up(r); resp.StatusCode != 0 {
					return resp, nil
				}
				return nil, errors.New("connection reset by peer")
			}, gateway.Middleware(server.Observe(&seen)))
			for range 2 {
				post(g, "{}")
			}
			require.Equal(t, c.next, seen[1])
		})
	}
}

func TestHintOfTheUpstreamIsPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := post(local(t, memstore.New(), respond(http.StatusServiceUnavailable, "Retry-After", "77")), "{}")
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Equal(t, []string{"77"}, w.Header().Values("Retry-After"))
		w = post(local(t, memstore.New(), respond(http.StatusServiceUnavailable)), "{}")
		require.Contains(t, []string{"1", "2"}, w.Header().Get("Retry-After"))
		w = post(local(t, memstore.New(), respond(http.StatusBadRequest)), "{}")
		require.Empty(t, w.Header().Get("Retry-After"))
	})
}

// The next request with the key asks again, unless the upstream has refused for good.
func TestResponseWhoseEffectIsUnknownIsNotReplayed(t *testing.T) {
	for rule, c := range map[string]struct {
		status int
		code   string
		sent   int
		replay string
	}{
		"a failure":            {500, "", 2, ""},
		"an unknown outcome":   {409, "CONFLICT.idempotency.outcome_unknown", 1, ""}, // the client keeps it
		"a transient conflict": {409, "CONFLICT.idempotency.in_flight", 2, ""},
		"a refusal":            {400, "VALIDATION.bad_request", 1, "replayed"},
		"an unknown conflict":  {409, "", 1, "replayed"},
	} {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := 0
				up := respond(c.status, "Error-Code", c.code)
				g := local(t, memstore.New(), func(r *http.Request) (*http.Response, error) {
					sent++
					return up(r)
				})
				require.Equal(t, c.status, post(g, "{}").Code)
				again := post(g, "{}")
				require.Equal(t, c.status, again.Code)
				require.Equal(t, c.sent, sent)
				require.Equal(t, c.replay, again.Header().Get("Idempotency-Status"))
			})
		})
	}
}

// The client has the record of the request, and sends nothing.
func TestRefusalOfTheClientIsAConflict(t *testing.T) {
	reset := func(*http.Request) (*http.Response, error) { return nil, errors.New("connection reset by peer") }
	for rule, c := range map[string]struct {
		later        time.Duration
		settled      bool
		code, detail string
	}{
		"an operator found the effect": {0, true, "CONFLICT.idempotency.result_not_stored", "The request was done"},
		"the key is too old":           {23*time.Hour + 59*time.Minute, false, "CONFLICT.idempotency.expired", "too old"},
	} {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memstore.New()
				g := local(t, st, reset)
				require.Equal(t, http.StatusBadGateway, post(g, "{}").Code)
				if c.settled {
					client, err := redo.New(redo.WithStore(st), redo.WithScope("gateway"))
					require.NoError(t, err)
					for op, err := range client.Pending(t.Context()) {
						require.NoError(t, err)
						f := redo.Finding{Effect: redo.Applied, Evidence: "row 7 of the ledger", By: "ana"}
						require.NoError(t, client.Settle(t.Context(), op.Name, f))
					}
				}
				time.Sleep(c.later)
				for range 2 {
					w := post(g, "{}")
					require.Equal(t, http.StatusConflict, w.Code, w.Body)
					require.Contains(t, w.Body.String(), c.code)
					require.Contains(t, w.Body.String(), c.detail)
					require.Contains(t, w.Body.String(), `"retryable":false`)
					require.Empty(t, w.Header().Get("Retry-After"))
				}
			})
		})
	}
}

// A refusal that is stored would keep the phone from the attempt that it asks for.
func TestAProbeThatFoundNothingLetsThePhoneTryAgain(t *testing.T) {
	sent := 0
	g := local(t, memstore.New(), func(r *http.Request) (*http.Response, error) {
		if sent++; sent == 1 {
			return respond(http.StatusInternalServerError, "Idempotent-Replayed", "true")(r)
		}
		return respond(http.StatusCreated)(r)
	}, gateway.Client(redo.WithProbe(func(context.Context, redo.Operation) (redo.Finding, error) {
		return redo.Finding{Effect: redo.NotApplied, Evidence: "no such row"}, nil
	})))
	w := post(g, "{}")
	require.Equal(t, http.StatusConflict, w.Code)
	require.Contains(t, w.Body.String(), "Nothing was done.")
	require.Contains(t, w.Body.String(), `"retryable":true`)
	require.NotEmpty(t, w.Header().Get("Retry-After"))
	require.Equal(t, http.StatusCreated, post(g, "{}").Code)
}

func TestAQueryIsForwardedWithoutSemicolons(t *testing.T) {
	var query string
	g := local(t, memstore.New(), func(r *http.Request) (*http.Response, error) {
		query = r.URL.RawQuery
		return respond(http.StatusCreated)(r)
	})
	r := httptest.NewRequest(http.MethodPost, "/v1/refunds?x=1;2&y=3", strings.NewReader("{}"))
	r.Header = http.Header{"X-User": {"ann"}, "Idempotency-Key": {"k1"}}
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	require.Equal(t, http.StatusCreated, w.Code)
	require.Equal(t, "y=3", query)
}
