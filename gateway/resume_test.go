package gateway_test

import (
	"context"
	"errors"
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
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

// A phone sends a request, its gateway loses the upstream, and the phone never comes back.
func TestRunContinuesARequestWithoutItsPhone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := servertest.NewInMemory(t)
		st := memstore.New()
		u, err := url.Parse(up.URL)
		require.NoError(t, err)
		serve := func(g *gateway.Gateway) int {
			req := httptest.NewRequest(http.MethodPost, "/v1/refunds", strings.NewReader("{}"))
			req.Header = http.Header{"Idempotency-Key": {"k1"}, "X-User": {"ann"}, "X-App-Version": {"7"}}
			w := httptest.NewRecorder()
			g.ServeHTTP(w, req)
			return w.Code
		}
		start := func(rt http.RoundTripper) *gateway.Gateway {
			g, err := gateway.New(u, st, gateway.Principal(user), gateway.Secret(secret),
				gateway.Client(redo.WithTransport(rt)))
			require.NoError(t, err)
			return g
		}
		dead := start(roundTrip(func(*http.Request) (*http.Response, error) {
			return nil, errors.New("connection reset by peer")
		}))
		require.Equal(t, http.StatusBadGateway, serve(dead))

		alive := start(up.Transport())
		go alive.Run(t.Context())
		time.Sleep(time.Hour)
		require.Equal(t, 1, up.Ledger().Total())
		require.Equal(t, http.StatusCreated, serve(alive))
		require.Equal(t, 1, up.Ledger().Total())
		require.Equal(t, []string{"7"}, up.Requests()[0].Header["X-App-Version"])
		require.NoError(t, alive.Shutdown(t.Context()))
	})
}

// A gateway can't know that another URL leads to the same service.
func TestAPendingRequestBelongsToTheURLOfItsUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, hosts := memstore.New(), []string{}
		start := func(host string) *gateway.Gateway {
			g, err := gateway.New(&url.URL{Scheme: "http", Host: host}, st, gateway.Principal(user), gateway.Secret(secret),
				gateway.Client(redo.WithTransport(roundTrip(func(r *http.Request) (*http.Response, error) {
					if hosts = append(hosts, r.URL.Host); len(hosts) == 1 {
						return respond(http.StatusServiceUnavailable)(r)
					}
					return respond(http.StatusCreated)(r)
				})), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1})))
			require.NoError(t, err)
			return g
		}
		require.Equal(t, http.StatusServiceUnavailable, post(start("old.example"), "{}").Code)
		moved, done := start("new.example"), make(chan error)
		w := post(moved, "{}")
		require.Equal(t, http.StatusConflict, w.Code)
		require.Equal(t, "CONFLICT.idempotency.payload_mismatch", w.Header().Get("Error-Code"))
		go func() { done <- moved.Run(t.Context()) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, []string{"old.example", "old.example"}, hosts)
		require.NoError(t, moved.Shutdown(t.Context()))
		require.ErrorIs(t, <-done, redo.ErrClosed)
	})
}

// A phone that was refused may use another key. An effect under the first one would then be a second effect.
func TestRunSendsNoRequestThatThePhoneSawRefused(t *testing.T) {
	for status, c := range map[int]struct {
		resumed int // requests to the upstream after an hour of Run
		again   int // the status of the phone's repetition
	}{
		400: {1, 400}, 401: {1, 201}, 402: {1, 402}, 403: {1, 201}, 409: {1, 409}, 422: {1, 422}, 303: {1, 303},
		501: {1, 201}, 409 + 1000: {2, 201}, 503: {2, 201},
	} {
		synctest.Test(t, func(t *testing.T) {
			st, requests := memstore.New(), 0
			g := local(t, st, func(r *http.Request) (*http.Response, error) {
				if requests++; requests > 1 {
					return respond(http.StatusCreated)(r)
				}
				if status > 1000 {
					return respond(status-1000, "Error-Code", "CONFLICT.idempotency.in_flight")(r)
				}
				return respond(status, "Location", "/v1/refunds/1")(r)
			})
			require.Equal(t, status%1000, post(g, "{}").Code)
			go func() { _ = g.Run(t.Context()) }()
			time.Sleep(time.Hour)
			synctest.Wait()
			require.Equal(t, c.resumed, requests, status)
			require.Equal(t, c.again, post(g, "{}").Code, status)
			for rec := range st.Pending(t.Context(), "gateway") {
				require.Fail(t, "pending", "%d: %v", status, rec.ID)
			}
		})
	}
}

// Without a mark a refusal does not show that the first attempt, whose response was lost, had no effect.
func TestRunEndsAtARefusalThatTheUpstreamMarksAsStored(t *testing.T) {
	for mark, requests := range map[string]int{"stored": 2, "": 6} {
		synctest.Test(t, func(t *testing.T) {
			st, sent := memstore.New(), 0
			g := local(t, st, func(r *http.Request) (*http.Response, error) {
				if sent++; sent == 1 {
					return nil, errors.New("connection reset by peer")
				}
				return respond(http.StatusPaymentRequired, "Idempotency-Status", mark)(r)
			})
			require.Equal(t, http.StatusBadGateway, post(g, "{}").Code)
			go func() { _ = g.Run(t.Context()) }()
			time.Sleep(3 * time.Minute)
			synctest.Wait()
			require.Equal(t, requests, sent, mark)
			require.Equal(t, http.StatusPaymentRequired, post(g, "{}").Code)
			for rec := range st.Pending(t.Context(), "gateway") {
				require.Fail(t, "pending", "%q: %v", mark, rec.ID)
			}
		})
	}
}

// APIs such as those of GraphQL refuse with the status 200.
func TestRunSendsNoRequestThatThePhoneSawRefusedByASuccessStatus(t *testing.T) {
	for verdict, want := range map[taxonomy.Verdict]struct{ resumed, again int }{
		{Code: "PROVIDER.insufficient_funds", Effect: taxonomy.NotApplied}: {1, 1},
		{Code: "PROVIDER.insufficient_funds"}:                              {1, 1},
		{Code: taxonomy.Unauthenticated, Effect: taxonomy.NotApplied}:      {1, 2},
		{Code: taxonomy.Unavailable, Class: taxonomy.ClassTransient}:       {2, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			st, requests := memstore.New(), 0
			g := local(t, st, func(r *http.Request) (*http.Response, error) {
				requests++
				return respond(http.StatusOK)(r)
			}, gateway.Client(redo.WithClassifier(func(_ *http.Response, _ []byte, v taxonomy.Verdict) taxonomy.Verdict {
				if requests == 1 {
					return verdict
				}
				return v
			})))
			require.Equal(t, http.StatusOK, post(g, "{}").Code)
			go func() { _ = g.Run(t.Context()) }()
			time.Sleep(time.Hour)
			synctest.Wait()
			require.Equal(t, want.resumed, requests, verdict)
			require.Equal(t, http.StatusOK, post(g, "{}").Code)
			require.Equal(t, want.again, requests, verdict)
			for rec := range st.Pending(t.Context(), "gateway") {
				require.Fail(t, "pending", "%v: %v", verdict, rec.ID)
			}
		})
	}
}

// A refusal is final only if Run can't send its request again.
func TestRefusalIsNotFinalWhileItsOperationIsPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &failing{Store: memstore.New()}
		requests := 0
		g := local(t, st, func(r *http.Request) (*http.Response, error) {
			requests++
			st.down = requests == 1
			return respond(http.StatusPaymentRequired)(r)
		})
		w := post(g, "{}")
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.NotEmpty(t, w.Header().Get("Retry-After"))
		st.down = false
		time.Sleep(time.Minute)
		require.Equal(t, http.StatusPaymentRequired, post(g, "{}").Code)
		require.Equal(t, 2, requests)
	})
}

// failing is a store that forgets nothing while it is down.
type failing struct {
	*memstore.Store
	down bool
}

func (f *failing) Release(ctx context.Context, l store.Lease) error {
	if f.down {
		return store.ErrUnavailable
	}
	return f.Store.Release(ctx, l)
}

// An attempt of the proxy may take longer than MaxElapsed. The upstream sees no second request meanwhile: it could run
// that one after it has refused the first one.
func TestRunOfAnotherGatewayWaitsForARequestUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, requests := memstore.New(), 0
		up := func(r *http.Request) (*http.Response, error) {
			requests++
			time.Sleep(50 * time.Second)
			return respond(http.StatusPaymentRequired)(r)
		}
		slow := gateway.Client(redo.WithTransport(roundTrip(up)))
		first, second := local(t, st, up, slow), local(t, st, up, slow)
		go func() { _ = second.Run(t.Context()) }()
		require.Equal(t, http.StatusPaymentRequired, post(first, "{}").Code)
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, 1, requests)
	})
}
