package redo

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/redo-go/redo/limit"
	"github.com/redo-go/redo/taxonomy"
)

func TestTheClientTellsItsBreaker(t *testing.T) {
	noToken := func(*http.Request) error { return errors.New("no token") }
	used := func() Option { return WithLimiter(limitAfter{1, new(int)}) }
	for _, c := range []struct {
		name     string
		statuses []int
		options  []Option
		want     []limit.Health
	}{
		{
			"of every attempt", []int{503, broken, 200}, nil,
			[]limit.Health{limit.Unhealthy, limit.Unhealthy, limit.Healthy},
		},
		{"that a terminal response is a response", []int{404}, nil, []limit.Health{limit.Healthy}},
		{
			"nothing of an attempt without credentials", []int{200}, []Option{WithCredentials(noToken)},
			[]limit.Health{limit.Neutral},
		},
		{
			"nothing of an attempt that the limiter refuses", []int{503}, []Option{used()},
			[]limit.Health{limit.Unhealthy, limit.Neutral},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &recordingBreaker{}
				client := open(t, append(c.options, WithTransport(&scripted{statuses: c.statuses}), WithBreaker(b))...)
				_ = send(t.Context(), t, client)
				require.Equal(t, c.want, b.health)
				require.Equal(t, bank.String(), b.destination)
			})
		})
	}
}

func TestAPanickingTransportFreesTheBreaker(t *testing.T) {
	b := &recordingBreaker{}
	rt := roundTrip(func(*http.Request) (*http.Response, error) { panic("transport") })
	client := open(t, WithBreaker(b), WithTransport(rt))
	require.PanicsWithValue(t, "transport", func() { _ = send(t.Context(), t, client) })
	require.Equal(t, []limit.Health{limit.Neutral}, b.health)
}

func TestAnOpenBreakerEndsTheCallBeforeAnythingIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &scripted{statuses: []int{503, 503, hang, 200}}
		b, err := limit.NewBreaker(limit.BreakerPolicy{Failures: 2})
		require.NoError(t, err)
		client := open(t, WithTransport(rt), WithBreaker(b), WithRetry(RetryPolicy{MaxAttempts: 2}))
		require.ErrorIs(t, send(t.Context(), t, client), taxonomy.Unavailable)
		require.EqualValues(t, 2, rt.sent.Load())

		err = send(t.Context(), t, client)
		require.ErrorIs(t, err, ErrBreakerOpen)
		require.ErrorIs(t, err, taxonomy.Unavailable)
		require.True(t, SafeToRetry(err))
		require.EqualValues(t, 2, rt.sent.Load())

		time.Sleep(5 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, send(ctx, t, client), context.DeadlineExceeded)
		require.NoError(t, send(t.Context(), t, client), "a cancelled probe makes room for another")
		require.NoError(t, send(t.Context(), t, client), "whose success closes the breaker")
		require.EqualValues(t, 5, rt.sent.Load())
	})
}

func TestARateLimiterSpacesAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := rate.NewLimiter(rate.Every(time.Second), 1)
		client := open(t, WithTransport(&scripted{statuses: []int{200}}), WithLimiter(limiter))
		start := time.Now()
		for i := range 3 {
			require.NoError(t, send(t.Context(), t, client))
			require.Equal(t, time.Duration(i)*time.Second, time.Since(start))
		}
	})
}

func TestALimiterPerDestinationThatLimitsNothing(t *testing.T) {
	unlimited := limit.PerDestination(func() limit.Limiter { return nil })
	client := open(t, WithTransport(&scripted{statuses: []int{200}}), WithLimiter(unlimited))
	require.NoError(t, send(t.Context(), t, client))
}

func TestTheClientTellsItsLimiterOfRefusals(t *testing.T) {
	for _, c := range []struct {
		name     string
		statuses []int
		want     []bool
	}{
		{"429 is a refusal", []int{429, 200}, []bool{true, false}},
		{"other failures are not", []int{503, 400}, []bool{false, false}},
		{"a broken connection shows nothing", []int{broken, 200}, []bool{false}},
	} {
		for name, wrap := range map[string]func(limit.Limiter) limit.Limiter{
			"one for all": func(l limit.Limiter) limit.Limiter { return l },
			"one per destination": func(l limit.Limiter) limit.Limiter {
				return limit.PerDestination(func() limit.Limiter { return l })
			},
		} {
			t.Run(c.name+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var reports recordingLimiter
					client := open(t, WithTransport(&scripted{statuses: c.statuses}), WithLimiter(wrap(&reports)))
					_ = send(t.Context(), t, client)
					require.Equal(t, c.want, []bool(reports))
				})
			})
		}
	}
}

func TestALimiterThatRefusesEndsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &scripted{statuses: []int{200}}
		err := send(t.Context(), t, open(t, WithTransport(rt), WithLimiter(limitAfter{0, new(int)})))
		require.ErrorIs(t, err, ErrLimited)
		e, ok := errors.AsType[*Error](err)
		require.True(t, ok)
		require.Equal(t, taxonomy.RateLimited, e.Code)
		require.Equal(t, NotApplied, e.Effect)
		require.True(t, SafeToRetry(err))
		require.ErrorContains(t, err, "no room before the deadline", "the limiter's own error")
		require.Zero(t, rt.sent.Load())
	})
}

// Waiting for a limiter is no work: it takes nothing from the attempt's time or from the total (trap 75).
func TestWaitingForALimiterIsNoPartOfTheTotal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &scripted{statuses: []int{503, 200}, hint: "8"}
		slow := rate.NewLimiter(rate.Every(5*time.Second), 1)
		require.True(t, slow.Allow())
		require.NoError(t, send(t.Context(), t, open(t, WithTransport(rt), WithLimiter(slow))))
		require.EqualValues(t, 2, rt.sent.Load(), "5 s in the limiter and 8 s of a hint fit into 10 s")
	})
}

func TestAnAttemptSaysHowLongTheClientWaits(t *testing.T) {
	for _, c := range []struct {
		name    string
		timeout time.Duration
		caller  time.Duration
		want    string
	}{
		{"the total by default", 0, 0, "10000"},
		{"the attempt's own time", 1500 * ms, 0, "1500"},
		{"the caller's deadline if it is earlier", 1500 * ms, 700 * ms, "700"},
		{"whole milliseconds", 1500 * time.Microsecond, 0, "1"},
		{"never zero", 500 * time.Microsecond, 0, "1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got string
				rt := roundTrip(func(r *http.Request) (*http.Response, error) {
					got = r.Header.Get("X-Request-Timeout")
					return (&scripted{statuses: []int{200}}).RoundTrip(r)
				})
				client := open(t, WithRetry(RetryPolicy{AttemptTimeout: c.timeout}), WithTransport(rt))
				ctx := t.Context()
				if c.caller != 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.caller)
					defer cancel()
				}
				require.NoError(t, send(ctx, t, client))
				require.Equal(t, c.want, got)
			})
		})
	}
}

// The attempt's context ends with the caller's. Its clock must not: the caller's deadline would look like a slow server
// (trap 63).
func TestTheCallersDeadlineIsNeverTheAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &recordingBreaker{}
		client := open(t, WithTransport(&scripted{statuses: []int{hang}}), WithBreaker(b))
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := send(ctx, t, client)
			cancel()
			require.ErrorIs(t, err, taxonomy.CallerDeadline)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, ErrAttemptTimeout)
		}
		for _, h := range b.health {
			require.Equal(t, limit.Neutral, h)
		}
	})
}

// The twin of the test above.
func TestAnAttemptsTimeoutIsNotTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &recordingBreaker{}
		client := open(t, WithTransport(&scripted{statuses: []int{hang, 200}}), WithBreaker(b),
			WithRetry(RetryPolicy{AttemptTimeout: time.Second}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, send(ctx, t, client))
		require.Equal(t, []limit.Health{limit.Unhealthy, limit.Healthy}, b.health)
	})
}

func TestACallerWhoGivesUpInTheLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		used := rate.NewLimiter(rate.Every(5*time.Second), 1)
		require.True(t, used.Allow())
		gaveUp := errors.New("gave up")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(gaveUp) })
		rt := &scripted{statuses: []int{200}}
		err := send(ctx, t, open(t, WithTransport(rt), WithLimiter(used)))
		require.ErrorIs(t, err, taxonomy.CallerCanceled)
		require.ErrorIs(t, err, gaveUp)
		require.NotErrorIs(t, err, ErrLimited)
		require.Zero(t, rt.sent.Load())
	})
}
