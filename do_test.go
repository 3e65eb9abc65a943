package redo_test

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/taxonomy"
)

func TestAttemptsFollowTheScheduleUnderOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := servertest.Status(503)
		srv := servertest.NewInMemory(t, servertest.ScriptNext(down, down, down, down, servertest.OK()))
		doubling := func(n int, _ time.Duration, p redo.RetryPolicy, _ float64) time.Duration {
			return p.BaseDelay << n
		}
		client := connect(t, srv.Transport(), redo.WithRetry(redo.RetryPolicy{Jitter: doubling}))
		start := time.Now()
		resp, body := succeed(t, client, post(t, t.Context(), srv.URL+"/refunds", payment))

		require.Equal(t, http.StatusCreated, resp.StatusCode)
		require.JSONEq(t, `{"id":"rf_1"}`, body)
		require.Equal(t, []time.Duration{0, 100e6, 300e6, 700e6, 1500e6}, offsets(srv, start))
		require.Equal(t, 1500*time.Millisecond, time.Since(start))
		key := redo.KeyOf(resp)
		require.Equal(t, []string{key, key, key, key, key}, keys(srv))
		srv.Ledger().AssertEffects(t, key, 1)
		for _, r := range srv.Requests() {
			require.Equal(t, payment, string(r.Body), "every attempt carries the whole body")
		}
	})
}

func TestDefaultPolicyMakesFiveAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := servertest.Status(503)
		srv := servertest.NewInMemory(t, servertest.ScriptNext(down, down, down, down, down))
		client, err := redo.New(redo.WithTransport(srv.Transport()))
		require.NoError(t, err)
		e := fail(t, client, post(t, t.Context(), srv.URL, payment))
		require.ErrorIs(t, e, redo.ErrAttempts)
		require.ErrorIs(t, e, taxonomy.Unavailable)
		require.Equal(t, 503, e.StatusCode)
		require.Len(t, e.Attempts, 5)
		require.Len(t, srv.Requests(), 5)
		require.Equal(t, redo.EffectUnknown, e.Effect)
		require.Zero(t, e.Attempts[4].Wait, "nothing is waited for after the last attempt")
		require.Equal(t, "Service Unavailable", drain(t, e.Response))
	})
}

func TestServerHintWinsOverTheSchedule(t *testing.T) {
	epoch := func(d time.Duration) string { return strconv.FormatInt(time.Now().Add(d).Unix(), 10) }
	for _, c := range []struct {
		name  string
		fault func() servertest.Fault
		wait  time.Duration
	}{
		{"Retry-After in seconds on 503", with(503, "Retry-After", "2"), 2 * time.Second},
		{"Retry-After in seconds on 500", with(500, "Retry-After", "3"), 3 * time.Second},
		{"Retry-After in seconds on 429", with(429, "Retry-After", "1"), time.Second},
		{"Retry-After as an IMF-fixdate", func() servertest.Fault {
			return servertest.Status(503).With(servertest.RetryAfterDate(4 * time.Second))
		}, 4 * time.Second},
		{"Retry-After as an RFC 850 date", func() servertest.Fault {
			at := time.Now().UTC().Add(4 * time.Second)
			return servertest.Status(503).With(servertest.RetryAfterRaw(at.Format("Monday, 02-Jan-06 15:04:05 GMT")))
		}, 4 * time.Second},
		{"Retry-After as an asctime date", func() servertest.Fault {
			at := time.Now().UTC().Add(4 * time.Second)
			return servertest.Status(503).With(servertest.RetryAfterRaw(at.Format(time.ANSIC)))
		}, 4 * time.Second},
		{"Retry-After of zero waits for the schedule", with(503, "Retry-After", "0"), rest},
		{"retry-after-ms", with(503, "Retry-After-Ms", "250"), 250 * time.Millisecond},
		{
			"retry-after-ms beside Retry-After", with(503, "Retry-After-Ms", "250", "Retry-After", "1"),
			250 * time.Millisecond,
		},
		{"RateLimit-Reset on 429", with(429, "RateLimit-Reset", "5"), 5 * time.Second},
		{"X-RateLimit-Reset in seconds on 429", with(429, "X-RateLimit-Reset", "6"), 6 * time.Second},
		{
			"X-RateLimit-Reset as an instant on 429",
			func() servertest.Fault { return with(429, "X-RateLimit-Reset", epoch(7*time.Second))() },
			7 * time.Second,
		},
		{"RateLimit-Reset on 503 is not a hint", with(503, "RateLimit-Reset", "5"), rest},
		{"garbage is ignored", with(503, "Retry-After", "soon"), rest},
		{"a negative number is ignored", with(503, "Retry-After", "-1"), rest},
		{"a number that overflows is ignored", with(503, "Retry-After", strconv.FormatInt(math.MaxInt64, 10)), rest},
		{"a number that overflows as a duration is ignored", with(503, "Retry-After", "9223372037"), rest},
		{"a date that has passed is ignored", func() servertest.Fault {
			return servertest.Status(503).With(servertest.RetryAfterDate(-time.Hour))
		}, rest},
		{"a hint that is longer than MaxDelay is not shortened", with(503, "Retry-After", "9"), 9 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// The bubble begins in 2000, where an instant looks like a number of seconds.
				time.Sleep(30 * 365 * 24 * time.Hour)
				srv := servertest.NewInMemory(t, servertest.ScriptNext(c.fault(), servertest.OK()))
				start := time.Now()
				succeed(t, connect(t, srv.Transport()), post(t, redo.WithKey(t.Context(), "k"), srv.URL, payment))
				require.Equal(t, []time.Duration{0, c.wait}, offsets(srv, start))
			})
		})
	}
}

func with(status int, header ...string) func() servertest.Fault {
	return func() servertest.Fault {
		f := servertest.Status(status)
		for i := 0; i+1 < len(header); i += 2 {
			f = f.With(servertest.Field(header[i], header[i+1]))
		}
		return f
	}
}

func TestWaitThatPassesTheEndIsNotSlept(t *testing.T) {
	for _, c := range []struct {
		name     string
		fault    servertest.Fault
		deadline time.Duration
		retryIn  time.Duration
	}{
		{
			"a hint of a day passes MaxElapsed", servertest.RateLimited(servertest.RetryAfterSeconds(86400)), 0,
			24 * time.Hour,
		},
		{
			"a hint of exactly MaxElapsed leaves no time", servertest.RateLimited(servertest.RetryAfterSeconds(10)),
			0, 10 * time.Second,
		},
		{
			"a hint passes the caller's deadline", servertest.RateLimited(servertest.RetryAfterSeconds(2)),
			time.Second, 2 * time.Second,
		},
		{"the schedule passes the caller's deadline", servertest.Status(503), rest, rest},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(c.fault))
				st := openStore(t)
				client := connect(t, srv.Transport(), redo.WithStore(st))
				ctx := redo.WithOperation(t.Context(), "op")
				if c.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.deadline)
					defer cancel()
				}
				start := time.Now()
				e := fail(t, client, post(t, ctx, srv.URL, payment))
				require.Zero(t, time.Since(start), "the call ends immediately")
				require.ErrorIs(t, e, redo.ErrTooLate)
				require.Equal(t, start.Add(c.retryIn), e.RetryAt)
				require.Len(t, e.Attempts, 1)
				require.True(t, redo.SafeToRetry(e))
				require.Len(t, pending(t, client), 1, "the operation stays pending")
			})
		})
	}
}

func TestDeadlineEndsTheAttemptsBeforeItPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := servertest.Status(503)
		srv := servertest.NewInMemory(t, servertest.ScriptNext(down, down))
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
		defer cancel()
		start := time.Now()
		e := fail(t, connect(t, srv.Transport()), post(t, ctx, srv.URL, payment))
		require.Equal(t, rest, time.Since(start))
		require.ErrorIs(t, e, redo.ErrTooLate)
		require.Equal(t, taxonomy.Unavailable, e.Code)
		require.Equal(t, start.Add(200*time.Millisecond), e.RetryAt)
		require.Len(t, e.Attempts, 2)
	})
}

func TestWhoseTimeoutItWas(t *testing.T) {
	cause := errors.New("the customer left")
	for _, c := range []struct {
		name    string
		policy  redo.RetryPolicy
		context func(context.Context) (context.Context, context.CancelFunc)
		code    taxonomy.Code
		is      []error
		isNot   []error
		elapsed time.Duration
		sent    int
	}{
		{
			"an attempt that times out is retried, and then DEPENDENCY.timeout",
			redo.RetryPolicy{MaxAttempts: 2, AttemptTimeout: time.Second, BaseDelay: rest}, nil,
			taxonomy.Timeout, []error{redo.ErrAttemptTimeout, redo.ErrAttempts}, []error{context.Canceled},
			2*time.Second + rest, 2,
		},
		{
			"MaxElapsed ends the last attempt as a timeout",
			redo.RetryPolicy{MaxElapsed: 3 * time.Second, BaseDelay: rest}, nil,
			taxonomy.Timeout, []error{redo.ErrAttemptTimeout, redo.ErrTooLate}, nil, 3 * time.Second, 1,
		},
		{
			"the caller's deadline is the caller's", redo.RetryPolicy{BaseDelay: rest},
			func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, 2*time.Second)
			},
			taxonomy.CallerDeadline, []error{context.DeadlineExceeded},
			[]error{redo.ErrAttemptTimeout, taxonomy.Timeout}, 2 * time.Second, 1,
		},
		{
			"the caller's cancel is the caller's, and its cause survives", redo.RetryPolicy{BaseDelay: rest},
			func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancelCause(ctx)
				time.AfterFunc(time.Second, func() { cancel(cause) })
				return ctx, func() { cancel(nil) }
			},
			taxonomy.CallerCanceled, []error{cause, context.Canceled}, []error{redo.ErrAttemptTimeout}, time.Second, 1,
		},
		{
			"the cause of a deadline survives", redo.RetryPolicy{BaseDelay: rest},
			func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeoutCause(ctx, time.Second, cause)
			},
			taxonomy.CallerDeadline, []error{cause, context.DeadlineExceeded}, nil, time.Second, 1,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hang := servertest.Delay(time.Minute)
				srv := servertest.NewInMemory(t, servertest.ScriptNext(hang, hang), servertest.Lenient())
				c.policy.Jitter = redo.ConstantDelay
				client := connect(t, srv.Transport(), redo.WithRetry(c.policy))
				ctx := t.Context()
				if c.context != nil {
					var cancel context.CancelFunc
					ctx, cancel = c.context(ctx)
					defer cancel()
				}
				start := time.Now()
				e := fail(t, client, post(t, ctx, srv.URL, payment))
				require.Equal(t, c.elapsed, time.Since(start))
				require.Equal(t, c.code, e.Code)
				require.Equal(t, redo.EffectUnknown, e.Effect)
				require.Len(t, srv.Requests(), c.sent)
				for _, err := range c.is {
					require.ErrorIs(t, e, err)
				}
				for _, err := range c.isNot {
					require.NotErrorIs(t, e, err)
				}
			})
		})
	}
}

func TestCancelDuringTheWaitKeepsTheLastAttemptsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.ResetAfterEffect()))
		cause := errors.New("shutting down")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(rest/2, func() { cancel(cause) })
		start := time.Now()
		e := fail(t, connect(t, srv.Transport()), post(t, ctx, srv.URL, payment))
		require.Equal(t, rest/2, time.Since(start), "the wait ends with the context")
		require.Equal(t, taxonomy.CallerCanceled, e.Code)
		require.ErrorIs(t, e, cause)
		require.ErrorIs(t, e, context.Canceled)
		require.ErrorIs(t, e.Err, syscall.ECONNRESET)
		require.Equal(t, redo.EffectUnknown, e.Effect)
		require.Equal(t, start.Add(rest), e.RetryAt, "the end of the wait")
		require.Len(t, e.Attempts, 1)
	})
}

func TestEachAttemptTellsTheServerHowLongItWillWait(t *testing.T) {
	for _, c := range []struct {
		name     string
		policy   redo.RetryPolicy
		deadline time.Duration
		want     []string
	}{
		{"the rest of MaxElapsed", redo.RetryPolicy{MaxElapsed: time.Second}, 0, []string{"1000", "900", "800"}},
		{
			"the attempt's timeout", redo.RetryPolicy{AttemptTimeout: 250 * time.Millisecond}, 0,
			[]string{"250", "250", "250"},
		},
		{
			"the rest, if it is less than the attempt's timeout",
			redo.RetryPolicy{MaxElapsed: time.Second, AttemptTimeout: 850 * time.Millisecond}, 0,
			[]string{"850", "850", "800"},
		},
		{
			"the caller's deadline, when it is nearer", redo.RetryPolicy{}, 400 * time.Millisecond,
			[]string{"400", "300", "200"},
		},
		{"never zero", redo.RetryPolicy{}, 200*time.Millisecond + 500*time.Microsecond, []string{"200", "100", "1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				down := servertest.Status(503)
				srv := servertest.NewInMemory(t, servertest.ScriptNext(down, down, servertest.OK()))
				c.policy.BaseDelay, c.policy.Jitter = rest, redo.ConstantDelay
				ctx := t.Context()
				if c.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.deadline)
					defer cancel()
				}
				succeed(t, connect(t, srv.Transport(), redo.WithRetry(c.policy)), post(t, ctx, srv.URL, payment))
				var got []string
				for _, r := range srv.Requests() {
					got = append(got, r.Header.Get("X-Request-Timeout"))
				}
				require.Equal(t, c.want, got)
			})
		})
	}
}

func TestKeylessRequests(t *testing.T) {
	for _, c := range []struct {
		name    string
		method  string
		fault   servertest.Fault
		retried bool
	}{
		{"a POST that was written is not resent", http.MethodPost, servertest.ResetAfterEffect(), false},
		{"a POST that got a 503 is not resent", http.MethodPost, servertest.Status(503), false},
		{"a POST that got a 429 is not resent", http.MethodPost, servertest.RateLimited(), false},
		{"a PATCH that was written is not resent", http.MethodPatch, servertest.Status(503), false},
		{"a PUT is idempotent by definition", http.MethodPut, servertest.Status(503), true},
		{"a DELETE is idempotent by definition", http.MethodDelete, servertest.ResetAfterEffect(), true},
		{"a GET is retried", http.MethodGet, servertest.Status(503), true},
		{"a HEAD is retried", http.MethodHead, servertest.Status(503), true},
		{"a GET is retried after a reset", http.MethodGet, servertest.CloseAfterEffect(), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.Script("", c.fault))
				client := connect(t, srv.Transport(), redo.WithKeys(nil))
				req, err := http.NewRequestWithContext(t.Context(), c.method, srv.URL, nil)
				require.NoError(t, err)
				if c.retried {
					resp, _ := succeed(t, client, req)
					require.Empty(t, redo.KeyOf(resp))
					require.Equal(t, 2, srv.Ledger().Requests(""))
					return
				}
				e := fail(t, client, req)
				require.ErrorIs(t, e, redo.ErrKeyless)
				limited := e.Code == taxonomy.RateLimited // and so not applied
				require.Equal(t, limited, redo.SafeToRetry(e))
				require.Equal(t, limited, !e.RetryAt.IsZero())
				require.Equal(t, 1, srv.Ledger().Requests(""))
			})
		})
	}
}

func TestKeylessPostIsRetriedWhenNothingWasWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t)
		srv.Close()
		client := connect(t, srv.Transport(), redo.WithKeys(nil))
		e := fail(t, client, post(t, t.Context(), srv.URL, payment))
		require.ErrorIs(t, e, syscall.ECONNREFUSED)
		require.Equal(t, taxonomy.Unavailable, e.Code)
		require.Equal(t, redo.NotApplied, e.Effect)
		require.Len(t, e.Attempts, 5)
		for _, a := range e.Attempts {
			require.Zero(t, a.WireSends)
		}
		require.True(t, redo.SafeToRetry(e))
	})
}

func TestBodyThatCannotBeReplayedIsSentOnceAndTheErrorSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.Status(503)))
		body := &watchedBody{Reader: strings.NewReader(payment)}
		req := post(t, t.Context(), srv.URL, "")
		req.Body, req.GetBody, req.ContentLength = body, nil, -1
		e := fail(t, connect(t, srv.Transport(), redo.WithMaxBufferedBody(len(payment)-1)), req)
		require.ErrorIs(t, e, redo.ErrNotReplayable)
		require.ErrorContains(t, e, "it has more than the limit of "+strconv.Itoa(len(payment)-1)+" bytes")
		require.Equal(t, taxonomy.Unavailable, e.Code)
		require.Equal(t, payment, string(srv.Requests()[0].Body))
		require.Len(t, srv.Requests(), 1)
		require.Positive(t, body.closed.Load())
	})
}

func TestBodyThatCannotBeReplayedIsRefusedForAStoredOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, st := servertest.NewInMemory(t), openStore(t)
		body := &watchedBody{Reader: strings.NewReader(payment)}
		req := named(t, srv, "op", "")
		req.Body, req.GetBody = body, nil
		e := fail(t, connect(t, srv.Transport(), redo.WithStore(st), redo.WithMaxBufferedBody(len(payment)-1)), req)
		require.Equal(t, taxonomy.BodyNotReplayable, e.Code)
		require.ErrorIs(t, e, redo.ErrNotReplayable)
		require.ErrorContains(t, e, "it has more than the limit of "+strconv.Itoa(len(payment)-1)+" bytes")
		require.Equal(t, redo.NotApplied, e.Effect)
		require.Empty(t, srv.Requests())
		requireAbsent(t, st, "op")
		require.Positive(t, body.closed.Load())
	})
}
