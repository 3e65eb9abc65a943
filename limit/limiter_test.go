package limit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
)

var (
	_ Limiter  = (*rate.Limiter)(nil)
	_ Limiter  = (*AdaptiveLimiter)(nil)
	_ Reporter = (*AdaptiveLimiter)(nil)
)

type limiterFunc func(context.Context) error

func (f limiterFunc) Wait(ctx context.Context) error { return f(ctx) }

// value is a Limiter without a pointer.
type value struct{}

func (value) Wait(context.Context) error { return nil }

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		name    string
		limiter Limiter
		want    string
	}{
		{"a nil pointer", (*rate.Limiter)(nil), "limit: the limiter is a nil *rate.Limiter"},
		{"a nil function", limiterFunc(nil), "limit: the limiter is a nil limit.limiterFunc"},
		{"a nil PerDestination", (*perDestination)(nil), "limit: the limiter is a nil *limit.perDestination"},
		{"PerDestination without a function", PerDestination(nil), "limit: PerDestination was given a nil function"},
		{"an AdaptiveLimiter that was not made", &AdaptiveLimiter{},
			"limit: the AdaptiveLimiter was not made by NewAdaptiveLimiter"},
	} {
		t.Run("refuses "+c.name, func(t *testing.T) { require.EqualError(t, Validate(c.limiter), c.want) })
	}
	adaptive, err := NewAdaptiveLimiter(1, 1)
	require.NoError(t, err)
	for name, l := range map[string]Limiter{
		"nil":               nil,
		"a limiter":         rate.NewLimiter(1, 1),
		"a zero limiter":    &rate.Limiter{},
		"a value":           value{},
		"a function":        limiterFunc(value{}.Wait),
		"an adaptive one":   adaptive,
		"PerDestination":    PerDestination(func() Limiter { return value{} }),
		"PerDestination's":  For(PerDestination(func() Limiter { return value{} }), bank),
		"a pointer to zero": &value{},
	} {
		t.Run("accepts "+name, func(t *testing.T) { require.NoError(t, Validate(l)) })
	}
}

func TestWait(t *testing.T) {
	usedUp := func() Limiter {
		l := rate.NewLimiter(rate.Every(time.Hour), 1)
		l.Allow()
		return l
	}
	for name, f := range map[string]func(*testing.T){
		"room is no error": func(t *testing.T) {
			require.NoError(t, Wait(t.Context(), rate.NewLimiter(1, 1)))
		},
		"nil limits nothing": func(t *testing.T) {
			require.NoError(t, Wait(t.Context(), nil))
		},
		"no room before the deadline is the limiter's refusal, and without a wait": func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			start := time.Now()
			require.ErrorIs(t, Wait(ctx, usedUp()), ErrLimited)
			require.Zero(t, time.Since(start))
		},
		"the limiter's error is kept": func(t *testing.T) {
			full := errors.New("full")
			err := Wait(t.Context(), limiterFunc(func(context.Context) error { return full }))
			require.ErrorIs(t, err, ErrLimited)
			require.ErrorIs(t, err, full)
		},
		"the caller's own end is the caller's": func(t *testing.T) {
			gaveUp := errors.New("gave up")
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(gaveUp) })
			err := Wait(ctx, usedUp())
			require.Equal(t, gaveUp, err)
			require.NotErrorIs(t, err, ErrLimited)
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
	}
}
