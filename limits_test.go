package redo_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/limit"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

func TestSpentBudgetEndsTheCallAndKeepsTheOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := servertest.Status(503)
		srv := servertest.NewInMemory(t, servertest.ScriptNext(down, down, servertest.OK()))
		st := openStore(t)
		client := connect(t, srv.Transport(), redo.WithStore(st),
			redo.WithBudget(limit.Budget{Ratio: 0.001, Reserve: 1}))
		e := fail(t, client, named(t, srv, "op", payment))
		require.ErrorIs(t, e, redo.ErrBudget)
		require.Equal(t, taxonomy.Unavailable, e.Code)
		require.Len(t, e.Attempts, 2)
		require.Equal(t, time.Now().Add(rest), e.RetryAt)
		require.True(t, redo.SafeToRetry(e))
		resp, _ := succeed(t, client, named(t, srv, "op", payment))
		require.Equal(t, e.Key, redo.KeyOf(resp), "pending, under its key")
	})
}

func TestRetriesThatEndWellOrTerminallyCostNothing(t *testing.T) {
	down := servertest.Status(503)
	for _, c := range []struct {
		name  string
		fault []servertest.Fault
		left  bool
	}{
		{"a success", []servertest.Fault{down, servertest.OK()}, true},
		{"a terminal response", []servertest.Fault{down, servertest.Status(422)}, true},
		{"a cancellation while it waits", []servertest.Fault{down}, true},
		{"another transient failure", []servertest.Fault{down, down}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(c.fault...), servertest.ScriptNext(down))
				client := connect(t, srv.Transport(), redo.WithBudget(limit.Budget{Ratio: 0.001, Reserve: 1}))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if len(c.fault) == 1 {
					time.AfterFunc(rest/2, cancel)
				}
				if resp, err := client.Do(post(t, ctx, srv.URL, payment)); err == nil {
					drain(t, resp)
				}
				if c.left {
					succeed(t, client, post(t, t.Context(), srv.URL, payment))
					return
				}
				require.ErrorIs(t, fail(t, client, post(t, t.Context(), srv.URL, payment)), redo.ErrBudget)
			})
		})
	}
}

// failing responds with 503 for the host bad.test and with 200 for all others.
func failing(sent map[string]int) tripper {
	return func(r *http.Request) (*http.Response, error) {
		sent[r.URL.Host]++
		if r.URL.Host == "bad.test" {
			return answer(r, 503, ""), nil
		}
		return answer(r, 200, ""), nil
	}
}

func TestOneDestinationDoesNotStarveAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		breaker, err := limit.NewBreaker(limit.BreakerPolicy{Failures: 2})
		require.NoError(t, err)
		sent := map[string]int{}
		bad := failing(sent)
		flaky := tripper(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == "good.test" && sent["good.test"] == 0 {
				sent["good.test"]++
				return answer(r, 503, ""), nil
			}
			return bad(r)
		})
		client := connect(t, flaky, redo.WithBreaker(breaker), redo.WithBudget(limit.Budget{Ratio: 0.001, Reserve: 1}),
			redo.WithLimiter(limit.PerDestination(func() limit.Limiter {
				return rate.NewLimiter(rate.Every(time.Hour), 3)
			})))
		e := fail(t, client, post(t, t.Context(), "http://bad.test/", payment))
		require.Len(t, e.Attempts, 2)
		e = fail(t, client, post(t, t.Context(), "http://bad.test/", payment))
		require.ErrorIs(t, e, redo.ErrBreakerOpen)

		start := time.Now()
		succeed(t, client, post(t, t.Context(), "http://good.test/", payment))
		require.Equal(t, rest, time.Since(start), "its own limiter, budget and breaker")
		require.Equal(t, map[string]int{"bad.test": 2, "good.test": 2}, sent)
	})
}

func TestOpenBreakerSendsNothingAndLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		breaker, err := limit.NewBreaker(limit.BreakerPolicy{Failures: 1, Cooldown: time.Minute})
		require.NoError(t, err)
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.Status(503)))
		st := openStore(t)
		client := connect(t, srv.Transport(), redo.WithStore(st), redo.WithBreaker(breaker),
			redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}))
		first := fail(t, client, named(t, srv, "op", payment))
		for _, name := range []string{"op", "other"} {
			e := fail(t, client, named(t, srv, name, payment))
			require.ErrorIs(t, e, redo.ErrBreakerOpen)
			require.Equal(t, taxonomy.Unavailable, e.Code)
			require.True(t, redo.SafeToRetry(e))
			require.False(t, e.RetryAt.IsZero(), "a caller that waits for it must not call without a pause")
			require.Zero(t, e.Attempts[0].WireSends)
			require.Equal(t, store.StatePending, record(t, st, name).State)
		}
		require.Len(t, srv.Requests(), 1)
		time.Sleep(time.Minute)
		resp, _ := succeed(t, client, named(t, srv, "op", payment))
		require.Equal(t, first.Key, redo.KeyOf(resp))
	})
}

func TestWhatTripsTheBreaker(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault servertest.Fault
		opts  []redo.Option
		trips bool
	}{
		{"a 503", servertest.Status(503), nil, true},
		{"a reset", servertest.ResetBeforeRead(), nil, true},
		{
			"an attempt that timed out", servertest.Delay(time.Hour),
			[]redo.Option{redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1, AttemptTimeout: time.Second})}, true,
		},
		{"a cancellation does not", servertest.Delay(time.Hour), nil, false},
		{"a terminal 422 does not", servertest.Status(422), nil, false},
		{"a request that is still running does not", servertest.InFlight(0), nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				breaker, err := limit.NewBreaker(limit.BreakerPolicy{Failures: 1})
				require.NoError(t, err)
				srv := servertest.NewInMemory(t, servertest.ScriptNext(c.fault))
				opts := append([]redo.Option{
					redo.WithBreaker(breaker), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}),
				}, c.opts...)
				client := connect(t, srv.Transport(), opts...)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				fail(t, client, post(t, ctx, srv.URL, payment))
				if c.trips {
					require.ErrorIs(t, fail(t, client, post(t, t.Context(), srv.URL, payment)), redo.ErrBreakerOpen)
					return
				}
				succeed(t, client, post(t, t.Context(), srv.URL, payment))
			})
		})
	}
}

func TestCredentialsThatFailSayNothingOfTheDestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		breaker, err := limit.NewBreaker(limit.BreakerPolicy{Failures: 2})
		require.NoError(t, err)
		var denied error
		sent := map[string]int{}
		client := connect(t, failing(sent), redo.WithBreaker(breaker), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}),
			redo.WithCredentials(func(*http.Request) error { return denied }))
		call := func() *redo.Error { return fail(t, client, post(t, t.Context(), "http://bad.test/", payment)) }
		call()
		denied = errors.New("no token")
		require.ErrorIs(t, call(), denied)
		denied = nil
		call()
		require.ErrorIs(t, call(), redo.ErrBreakerOpen, "two failures in a row, and nothing between them")
		require.Equal(t, 2, sent["bad.test"])
	})
}

func TestLimiterDelaysAttemptsAndRefusesWhatWouldBeTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t)
		st := openStore(t)
		limiter := rate.NewLimiter(rate.Every(time.Second), 1)
		client := connect(t, srv.Transport(), redo.WithStore(st), redo.WithLimiter(limiter))
		start := time.Now()
		for range 3 {
			succeed(t, client, post(t, t.Context(), srv.URL, payment))
		}
		require.Equal(t, []time.Duration{0, time.Second, 2 * time.Second}, offsets(srv, start))

		ctx, cancel := context.WithTimeout(redo.WithOperation(t.Context(), "op"), 500*time.Millisecond)
		defer cancel()
		body := &watchedBody{Reader: strings.NewReader(payment)}
		req := post(t, ctx, srv.URL+"/refunds", payment)
		req.Body = body
		e := fail(t, client, req)
		require.ErrorIs(t, e, redo.ErrLimited)
		require.Equal(t, taxonomy.RateLimited, e.Code)
		require.Equal(t, redo.NotApplied, e.Effect)
		require.Equal(t, 2*time.Second, time.Since(start), "a wait that ends too late is not made")
		require.Positive(t, body.closed.Load())
		require.Len(t, srv.Requests(), 3)
		require.Equal(t, store.StatePending, record(t, st, "op").State)

		time.Sleep(time.Second)
		succeed(t, client, named(t, srv, "op", payment))
	})
}

func TestAdaptiveLimiterLearnsFromRateLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.RateLimited()))
		limiter, err := limit.NewAdaptiveLimiter(100, 10)
		require.NoError(t, err)
		e := fail(t,
			connect(t, srv.Transport(), redo.WithLimiter(limiter), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1})),
			post(t, t.Context(), srv.URL, payment))
		require.Equal(t, taxonomy.RateLimited, e.Code)
		require.Equal(t, 50.0, limiter.Limit())
	})
}

// A transport that panics takes its caller down, and not the destination's breaker with it.
func TestAPanicDoesNotHoldTheBreakersProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := limit.NewBreaker(limit.BreakerPolicy{Failures: 1, Cooldown: time.Second})
		require.NoError(t, err)
		panics := true
		status := http.StatusServiceUnavailable
		c := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
			if status == http.StatusCreated && panics {
				panics = false
				panic("a bug in the transport")
			}
			return answer(r, status, ""), nil
		}), redo.WithBreaker(b), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}))
		req := func() *http.Request { return post(t, t.Context(), "http://api.test/", payment) }
		fail(t, c, req()) // opens it
		time.Sleep(time.Second)
		status = http.StatusCreated
		require.Panics(t, func() { _, _ = c.Do(req()) })
		succeed(t, c, req())
	})
}

func TestAnOutageUsesUpNoQuota(t *testing.T) {
	for name, outage := range map[string]func(*http.Request) (*http.Response, error){
		"no connection": func(*http.Request) (*http.Response, error) { return nil, errors.New("refused") },
		"a proxy's 502": func(r *http.Request) (*http.Response, error) { return answer(r, 502, ""), nil },
		"a panic":       func(*http.Request) (*http.Response, error) { panic("a bug in the transport") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				down := false
				c := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
					if down {
						return outage(r)
					}
					resp := answer(r, 200, "")
					resp.Header.Set("RateLimit", `"hour";r=3;t=3600`)
					return resp, nil
				}), redo.WithLimiter(limit.NewQuotaLimiter()), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}))
				call := func() (resp *http.Response, err error) {
					defer func() { _ = recover() }()
					return c.Do(post(t, t.Context(), "http://api.test/", payment))
				}
				succeed(t, c, post(t, t.Context(), "http://api.test/", payment))
				down = true
				for range 10 {
					resp, _ := call()
					require.Nil(t, resp)
				}
				down = false
				start := time.Now()
				succeed(t, c, post(t, t.Context(), "http://api.test/", payment))
				require.Zero(t, time.Since(start))
			})
		})
	}
}

func TestAnOpenBreakerDoesNotWaitForTheLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		breaker, err := limit.NewBreaker(limit.BreakerPolicy{Failures: 1, Cooldown: time.Second})
		require.NoError(t, err)
		status := 503
		c := connect(t, tripper(func(r *http.Request) (*http.Response, error) { return answer(r, status, ""), nil }),
			redo.WithBreaker(breaker), redo.WithLimiter(rate.NewLimiter(rate.Every(3*time.Second), 1)),
			redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}))
		req := func(ctx context.Context) *http.Request { return post(t, ctx, "http://api.test/", payment) }
		start := time.Now()
		fail(t, c, req(t.Context()))
		for range 10 {
			e := fail(t, c, req(t.Context()))
			require.ErrorIs(t, e, redo.ErrBreakerOpen)
			require.Equal(t, 1, strings.Count(e.Error(), redo.ErrBreakerOpen.Error()))
		}
		require.Zero(t, time.Since(start))
		time.Sleep(time.Second)
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, fail(t, c, req(soon)), redo.ErrLimited, "a probe that was not sent shows nothing")
		status = 200
		succeed(t, c, req(t.Context()))
		require.Equal(t, 3*time.Second, time.Since(start))
	})
}

func TestTheLimitersWaitIsNoFailureOfTheDestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		breaker, err := limit.NewBreaker(limit.BreakerPolicy{Failures: 1})
		require.NoError(t, err)
		srv := servertest.NewInMemory(t)
		c := connect(t, srv.Transport(), redo.WithBreaker(breaker), redo.WithLimiter(rate.NewLimiter(rate.Every(time.Hour), 1)))
		succeed(t, c, post(t, t.Context(), srv.URL, payment))
		for range 2 {
			require.ErrorIs(t, fail(t, c, post(t, t.Context(), srv.URL, payment)), redo.ErrLimited)
		}
	})
}
