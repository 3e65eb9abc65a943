package redo

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
)

var (
	_ Limiter       = (*rate.Limiter)(nil)
	_ Limiter       = (*AdaptiveLimiter)(nil)
	_ limitReporter = (*AdaptiveLimiter)(nil)
)

func TestARateLimiterSpacesAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := New(WithTransport(&scripted{statuses: []int{200}}), WithLimiter(rate.NewLimiter(rate.Every(time.Second), 1)))
		require.NoError(t, err)
		start := time.Now()
		for i := range 3 {
			require.NoError(t, send(t.Context(), t, client))
			require.Equal(t, time.Duration(i)*time.Second, time.Since(start))
		}
	})
}

func TestPerDestination(t *testing.T) {
	made := 0
	l := PerDestination(func() Limiter {
		made++
		return rate.NewLimiter(1, 1)
	})
	require.Same(t, limiterFor(l, bank), limiterFor(l, bank))
	require.NotSame(t, limiterFor(l, bank), limiterFor(l, shop))
	require.Equal(t, 2, made, "one for each destination")

	require.True(t, limiterFor(l, bank).(*rate.Limiter).Allow())
	require.False(t, limiterFor(l, bank).(*rate.Limiter).Allow())
	require.True(t, limiterFor(l, shop).(*rate.Limiter).Allow(), "one that is used up does not starve another")

	t.Run("alone it is one limiter", func(t *testing.T) {
		l := PerDestination(func() Limiter { return rate.NewLimiter(1, 1) })
		require.NoError(t, l.Wait(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), ms)
		defer cancel()
		require.Error(t, l.Wait(ctx))
	})
	t.Run("nil limits nothing", func(t *testing.T) {
		l := PerDestination(func() Limiter { return nil })
		require.Nil(t, limiterFor(l, bank))
		require.NoError(t, l.Wait(t.Context()))
		client, err := New(WithTransport(&scripted{statuses: []int{200}}), WithLimiter(l))
		require.NoError(t, err)
		require.NoError(t, send(t.Context(), t, client))
	})
	t.Run("others are shared as they are", func(t *testing.T) {
		l := rate.NewLimiter(1, 1)
		require.Same(t, l, limiterFor(l, bank))
		require.Nil(t, limiterFor(nil, bank))
	})
}

func TestNewAdaptiveLimiterRefuses(t *testing.T) {
	for _, c := range []struct {
		name  string
		rate  float64
		burst int
		want  string
	}{
		{"a rate of zero", 0, 1, "redo: adaptive limiter: the rate is 0, it must be positive and finite"},
		{"a negative rate", -1, 1, "redo: adaptive limiter: the rate is -1, it must be positive and finite"},
		{"a rate that is no number", math.NaN(), 1, "redo: adaptive limiter: the rate is NaN, it must be positive and finite"},
		{"an infinite rate, which could not be halved", math.Inf(1), 1, "redo: adaptive limiter: the rate is +Inf, it must be positive and finite"},
		{"a burst of zero", 1, 0, "redo: adaptive limiter: the burst is 0, it must be positive"},
		{"a negative burst", 1, -1, "redo: adaptive limiter: the burst is -1, it must be positive"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := NewAdaptiveLimiter(c.rate, c.burst)
			require.EqualError(t, err, c.want)
			require.Nil(t, l)
		})
	}
}

func TestAdaptiveLimiter(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps func(l *AdaptiveLimiter)
		want  float64
	}{
		{"starts at the most", func(*AdaptiveLimiter) {}, 100},
		{"stays there without refusals", func(l *AdaptiveLimiter) { time.Sleep(time.Minute); l.Report(false) }, 100},
		{"halves when it is refused", func(l *AdaptiveLimiter) { l.Report(true) }, 50},
		{"halves once within a second", func(l *AdaptiveLimiter) { l.Report(true); l.Report(true); time.Sleep(time.Second - 1); l.Report(true) }, 50},
		{"halves again after a second", func(l *AdaptiveLimiter) { l.Report(true); time.Sleep(time.Second); l.Report(true) }, 25},
		{"does not climb at once", func(l *AdaptiveLimiter) { l.Report(true); l.Report(false) }, 50},
		{"climbs by a twentieth of the most each second", func(l *AdaptiveLimiter) { l.Report(true); time.Sleep(time.Second); l.Report(false) }, 55},
		{"climbs by parts of it", func(l *AdaptiveLimiter) {
			l.Report(true)
			for range 4 {
				time.Sleep(250 * ms)
				l.Report(false)
			}
		}, 55},
		{"climbs by one step after a silence", func(l *AdaptiveLimiter) { l.Report(true); time.Sleep(time.Hour); l.Report(false) }, 55},
		{"climbs no higher than the most", func(l *AdaptiveLimiter) {
			l.Report(true)
			for range 30 {
				time.Sleep(time.Second)
				l.Report(false)
			}
		}, 100},
		{"never falls below a hundredth of the most", func(l *AdaptiveLimiter) {
			for range 20 {
				l.Report(true)
				time.Sleep(time.Second)
			}
		}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, err := NewAdaptiveLimiter(100, 1)
				require.NoError(t, err)
				c.steps(l)
				require.Equal(t, c.want, l.Limit())
			})
		})
	}
}

func TestAdaptiveLimiterOfASlowServerKeepsSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct{ most, lowest float64 }{{1, 0.1}, {0.05, 0.05}} {
			l, err := NewAdaptiveLimiter(c.most, 1)
			require.NoError(t, err)
			for range 20 {
				l.Report(true)
				time.Sleep(time.Second)
			}
			require.Equal(t, c.lowest, l.Limit())
		}
	})
}

func TestAdaptiveLimiterWaitsAtItsPresentRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := NewAdaptiveLimiter(10, 1)
		require.NoError(t, err)
		require.NoError(t, l.Wait(t.Context()))
		start := time.Now()
		require.NoError(t, l.Wait(t.Context()))
		require.Equal(t, 100*ms, time.Since(start))
		l.Report(true)
		start = time.Now()
		require.NoError(t, l.Wait(t.Context()))
		require.Equal(t, 200*ms, time.Since(start))
	})
}

func TestTheClientTellsItsLimiterOfRefusals(t *testing.T) {
	for _, c := range []struct {
		name     string
		statuses []int
		want     []bool
	}{
		{"429 is a refusal", []int{429, 200}, []bool{true, false}},
		{"other failures are not", []int{503, 400}, []bool{false, false}},
		{"a broken connection says nothing", []int{broken, 200}, []bool{false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told reports
				client, err := New(WithTransport(&scripted{statuses: c.statuses}), WithLimiter(PerDestination(func() Limiter { return &told })))
				require.NoError(t, err)
				_ = send(t.Context(), t, client)
				require.Equal(t, c.want, []bool(told))
			})
		})
	}
}

type reports []bool

func (r *reports) Wait(context.Context) error { return nil }
func (r *reports) Report(limited bool)        { *r = append(*r, limited) }

func TestWaitLimited(t *testing.T) {
	usedUp := func() Limiter {
		l := rate.NewLimiter(rate.Every(time.Hour), 1)
		l.Allow()
		return l
	}
	for name, f := range map[string]func(*testing.T){
		"room is no error": func(t *testing.T) {
			require.NoError(t, waitLimited(t.Context(), rate.NewLimiter(1, 1)))
		},
		"no room before the deadline is the limiter's refusal, and at once": func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			start := time.Now()
			require.ErrorIs(t, waitLimited(ctx, usedUp()), ErrLimited)
			require.Zero(t, time.Since(start))
		},
		"the caller's own end is the caller's": func(t *testing.T) {
			gaveUp := errors.New("gave up")
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(gaveUp) })
			err := waitLimited(ctx, usedUp())
			require.Equal(t, gaveUp, err)
			require.NotErrorIs(t, err, ErrLimited)
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
	}
}

func TestALimiterThatRefusesEndsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &scripted{statuses: []int{200}}
		client, err := New(WithTransport(rt), WithLimiter(limitAfter{0, new(int)}))
		require.NoError(t, err)
		err = send(t.Context(), t, client)
		require.ErrorIs(t, err, ErrLimited)
		require.Equal(t, NotApplied, err.(*Error).Effect) //nolint:errorlint // Do returns the bare error
		require.True(t, SafeToRetry(err))
		require.EqualError(t, err, "redo: RATE_LIMIT.exceeded after 1 attempt, effect not applied: redo: client-side rate limit; no room before the deadline")
		require.Zero(t, rt.sent.Load())
	})
}
