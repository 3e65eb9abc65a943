package redo_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/limit"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

// stubborn is a transport that, like many, returns the context's bare error.
func stubborn(statuses ...int) tripper {
	n := 0
	return func(r *http.Request) (*http.Response, error) {
		n++
		if n > len(statuses) || statuses[n-1] == 0 {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		return answer(r, statuses[n-1], "{}"), nil
	}
}

// wrapping puts the transport's errors into a url.Error.
func wrapping(rt http.RoundTripper) tripper {
	return func(r *http.Request) (*http.Response, error) {
		resp, err := rt.RoundTrip(r)
		if err != nil {
			err = &url.Error{Op: r.Method, URL: r.URL.String(), Err: err}
		}
		return resp, err
	}
}

// SDKs ask errors.As for a net.Error, and its Timeout.
func TestTimeoutReportsWhetherTheCallRanOutOfTime(t *testing.T) {
	once := redo.RetryPolicy{MaxAttempts: 1, AttemptTimeout: time.Second}
	twice := redo.RetryPolicy{MaxAttempts: 2, AttemptTimeout: time.Second, BaseDelay: rest, Jitter: redo.ConstantDelay}
	for _, c := range []struct {
		name     string
		statuses []int // 0: no response comes
		policy   redo.RetryPolicy
		deadline time.Duration
		timeout  bool
		caller   bool // context.DeadlineExceeded is in the error
	}{
		{"the attempt's timeout", []int{0}, once, time.Hour, true, false},
		{"the caller's deadline", []int{0}, twice, 500 * time.Millisecond, true, true},
		{"the caller's deadline in the second attempt", []int{0, 0}, twice, 1500 * time.Millisecond, true, true},
		{"422 after an attempt that timed out", []int{0, 422}, twice, time.Hour, false, false},
		{"503 after an attempt that timed out", []int{0, 503}, twice, time.Hour, false, false},
		{"504, a response of the server's", []int{504}, once, time.Hour, false, false},
		{"422 alone", []int{422}, once, time.Hour, false, false},
	} {
		for _, face := range []string{"Do", "Transport"} {
			if face == "Transport" && c.name != "the caller's deadline" {
				continue // statuses are no errors there, and no attempt is cut
			}
			t.Run(c.name+", "+face, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					client := connect(t, stubborn(c.statuses...), redo.WithRetry(c.policy))
					do := client.Do
					if face == "Transport" {
						do = under(client).Do
					}
					ctx, cancel := context.WithTimeout(t.Context(), c.deadline)
					defer cancel()
					_, err := do(post(t, ctx, "http://api.test/", payment))
					var netErr net.Error
					require.True(t, errors.As(err, &netErr))
					require.Equal(t, c.timeout, failure(t, err).Timeout())
					require.Equal(t, c.timeout, netErr.Timeout())
					require.Equal(t, c.caller, errors.Is(err, context.DeadlineExceeded))
					require.NotErrorIs(t, err, context.Canceled, "no caller cancelled")
					require.LessOrEqual(t, strings.Count(failure(t, err).Error(), "context deadline exceeded"), 1, err)
				})
			})
		}
	}
}

// A transport may have its own time limits. That an earlier attempt met one is no reason of the call's end.
func TestContextErrorOfAnEarlierAttemptIsNotTheCalls(t *testing.T) {
	for _, err := range []error{context.DeadlineExceeded, context.Canceled} {
		for _, last := range []int{422, 0} {
			t.Run(fmt.Sprint(err, ", then ", last), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := 0
					client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
						if n++; n == 1 || last == 0 {
							return nil, err
						}
						return answer(r, last, ""), nil
					}))
					e := fail(t, client, post(t, t.Context(), "http://api.test/", payment))
					require.Equal(t, last == 0, errors.Is(e, err))
					require.ErrorIs(t, e.Attempts[0].Err, err, "the attempt keeps it")
				})
			})
		}
	}
}

// The reason why the context ended is printed once, wherever the call was when it ended.
func TestCallersReasonIsPrintedOnce(t *testing.T) {
	reason := errors.New("the customer left")
	for _, cause := range []error{nil, reason, fmt.Errorf("%w: %w", reason, context.DeadlineExceeded)} {
		for _, c := range []struct {
			name string
			rt   http.RoundTripper
			opts []redo.Option
		}{
			{"while a transport with bare errors waits", stubborn(), nil},
			{"while net/http waits", nil, nil},
			{"while a transport waits that wraps its errors", wrapping(stubborn()), nil},
			{"while the limiter waits", stubborn(), []redo.Option{redo.WithLimiter(blocked{})}},
			{
				"while the store waits",
				stubborn(), []redo.Option{redo.WithStore(&slowStore{Store: openStore(t), wait: time.Hour})},
			},
			{
				"between two attempts",
				stubborn(503), []redo.Option{redo.WithRetry(redo.RetryPolicy{BaseDelay: 2 * time.Second,
					Jitter: redo.ConstantDelay})},
			},
		} {
			name := "a deadline " + c.name
			want := "context deadline exceeded"
			if cause != nil {
				name, want = fmt.Sprintf("the cause %q %s", cause, c.name), reason.Error()
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					if c.rt == nil {
						c.rt = servertest.NewInMemory(t, servertest.ScriptNext(servertest.Delay(time.Hour))).Transport()
					}
					ctx, cancel := context.WithTimeoutCause(redo.WithOperation(t.Context(), "op"), time.Second, cause)
					defer cancel()
					if c.name == "between two attempts" { // a known deadline would end the call before the wait
						var end context.CancelCauseFunc
						ctx, end = context.WithCancelCause(redo.WithOperation(t.Context(), "op"))
						time.AfterFunc(time.Second, func() { end(errors.Join(cause, context.DeadlineExceeded)) })
						defer end(nil)
					}
					opts := append([]redo.Option{redo.WithKeys(redo.DerivedKeys("test"))}, c.opts...)
					e := fail(t, connect(t, c.rt, opts...), post(t, ctx, "http://memory.test/", payment))
					require.True(t, e.Code.In(taxonomy.Caller), e.Error())
					require.ErrorIs(t, e, context.DeadlineExceeded)
					require.Equal(t, 1, strings.Count(e.Error(), want), e.Error())
					if cause != nil {
						require.ErrorIs(t, e, reason)
					}
					if !errors.Is(cause, context.DeadlineExceeded) { // whose own text has it
						require.LessOrEqual(t, strings.Count(e.Error(), "context deadline exceeded"), 1, e.Error())
					}
				})
			})
		}
	}
}

// A slowStore takes its time for each reservation.
type slowStore struct {
	*memstore.Store
	wait time.Duration
}

func (s *slowStore) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	select {
	case <-time.After(s.wait):
		return s.Store.Reserve(ctx, c)
	case <-ctx.Done():
		return store.Grant{}, ctx.Err()
	}
}

// A slowBreaker takes its time for each admission.
type slowBreaker struct{ wait time.Duration }

func (b slowBreaker) Allow(string) (func(limit.Health), error) {
	time.Sleep(b.wait)
	return func(limit.Health) {}, nil
}

// Each attempt takes almost all of its time at the server. Its earlier waits must not count.
func TestWaitingBeforeAnAttemptIsNoPartOfItsTime(t *testing.T) {
	const queue, work = 7 * time.Second, 900 * time.Millisecond
	for _, c := range []struct {
		name  string
		opt   func(*testing.T) redo.Option
		waits int // for two attempts
	}{
		{"for the limiter", func(*testing.T) redo.Option {
			return redo.WithLimiter(&slowLimiter{[]time.Duration{queue, queue}})
		}, 2},
		{"for the breaker", func(*testing.T) redo.Option { return redo.WithBreaker(slowBreaker{queue}) }, 2},
		{"for the store", func(t *testing.T) redo.Option {
			return redo.WithStore(&slowStore{Store: openStore(t), wait: 2 * queue})
		}, 2},
		{"for nothing", func(t *testing.T) redo.Option { return redo.WithStore(openStore(t)) }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ends []redo.AttemptEnd
				var budgets []string
				n := 0
				client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
					budgets = append(budgets, r.Header.Get("X-Request-Timeout"))
					select {
					case <-time.After(work):
					case <-r.Context().Done():
						return nil, r.Context().Err()
					}
					if n++; n == 1 {
						return answer(r, 503, ""), nil
					}
					return answer(r, 201, "{}"), nil
				}), c.opt(t), redo.WithKeys(redo.DerivedKeys("test")), redo.WithObserver(&attemptLog{&ends}),
					redo.WithRetry(redo.RetryPolicy{AttemptTimeout: time.Second, MaxElapsed: 10 * time.Second,
						BaseDelay: rest,
						Jitter:    redo.ConstantDelay}))
				start := time.Now()
				succeed(t, client, post(t, redo.WithOperation(t.Context(), "op"), "http://api.test/", payment))
				require.Equal(t, time.Duration(c.waits)*queue+2*work+rest, time.Since(start))
				require.Equal(t, []string{"1000", "1000"}, budgets)
				require.Equal(t, []time.Duration{work, work},
					[]time.Duration{ends[0].Attempt.Elapsed, ends[1].Attempt.Elapsed})
			})
		})
	}
}

func TestWorkOfAnAttemptIsPartOfItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.Delay(1001*time.Millisecond)))
		client := connect(t, srv.Transport(), redo.WithLimiter(&slowLimiter{[]time.Duration{time.Minute}}),
			redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1, AttemptTimeout: time.Second, MaxElapsed: 2 * time.Minute}))
		start := time.Now()
		e := fail(t, client, post(t, t.Context(), srv.URL, payment))
		require.Equal(t, taxonomy.Timeout, e.Code)
		require.True(t, e.Timeout())
		require.Equal(t, time.Minute+time.Second, time.Since(start))
	})
}

// A slowObserver takes its time at the end of each attempt.
type slowObserver struct {
	attemptLog
	takes time.Duration
}

func (o *slowObserver) EndAttempt(context.Context, redo.AttemptEnd) { time.Sleep(o.takes) }

// A timer may fire late. An attempt that then begins with no time left ends at once, and does not run for ever.
func TestAnAttemptWithoutTimeEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.Status(503),
			servertest.DelayAfterEffect(time.Hour)))
		client := connect(t, srv.Transport(), redo.WithObserver(&slowObserver{takes: time.Second}),
			redo.WithRetry(redo.RetryPolicy{MaxElapsed: time.Second, Jitter: redo.NoDelay}))
		start := time.Now()
		e := fail(t, client, post(t, t.Context(), srv.URL, payment))
		require.Len(t, e.Attempts, 2)
		require.ErrorIs(t, e, taxonomy.Timeout)
		require.Less(t, time.Since(start), 3*time.Second)
	})
}

// The caller's body may come slowly. The time that it takes to read is no part of the attempts' time.
func TestASlowBodyTakesNoTimeFromTheAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.DelayAfterEffect(time.Hour), servertest.OK()))
		client := connect(t, srv.Transport(), redo.WithKeys(redo.TimeOrderedKeys),
			redo.WithRetry(redo.RetryPolicy{MaxElapsed: 4 * time.Second, AttemptTimeout: time.Second, Jitter: redo.NoDelay}))
		body, w := io.Pipe()
		go func() {
			time.Sleep(5 * time.Second)
			_, _ = io.WriteString(w, payment)
			_ = w.Close()
		}()
		req := post(t, t.Context(), srv.URL, "")
		req.Body, req.GetBody, req.ContentLength = body, nil, -1
		start := time.Now()
		succeed(t, client, req)
		require.Equal(t, 6*time.Second, time.Since(start))
	})
}
