package redo

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	ms      = time.Millisecond
	forever = time.Duration(math.MaxInt64)
)

// almostOne is the largest random number there is: the range is half-open.
var almostOne = math.Nextafter(1, 0)

func TestJitters(t *testing.T) {
	usual := RetryPolicy{BaseDelay: 100 * ms, MaxDelay: 2 * time.Second}
	uncapped := RetryPolicy{BaseDelay: 100 * ms, MaxDelay: forever}
	long := RetryPolicy{BaseDelay: 1 << 62, MaxDelay: forever}
	for _, c := range []struct {
		name   string
		jitter Jitter
		policy RetryPolicy
		n      int
		prev   time.Duration
		random float64
		want   time.Duration
	}{
		{"full starts at zero", FullJitter, usual, 0, 0, 0, 0},
		{"full is a share of the step", FullJitter, usual, 0, 0, 0.5, 50 * ms},
		{"full stays below the step", FullJitter, usual, 0, 0, almostOne, 100*ms - 1},
		{"full doubles", FullJitter, usual, 1, 0, 0.5, 100 * ms},
		{"full doubles again", FullJitter, usual, 4, 0, 0.25, 400 * ms},
		{"full is capped at the largest wait", FullJitter, usual, 5, 0, 0.5, time.Second},
		{"full ignores the wait before", FullJitter, usual, 0, time.Hour, 0.5, 50 * ms},
		{"full does not overflow at 61", FullJitter, usual, 61, 0, 0.5, time.Second},
		{"full does not overflow at 62", FullJitter, usual, 62, 0, 0.5, time.Second},
		{"full does not overflow at 64", FullJitter, usual, 64, 0, 0.5, time.Second},
		{"full does not overflow at the largest n", FullJitter, usual, math.MaxInt, 0, 0.5, time.Second},
		{"full takes an n below zero for zero", FullJitter, usual, -1, 0, 0.5, 50 * ms},
		{
			"full of a base that is the cap", FullJitter, RetryPolicy{BaseDelay: time.Second, MaxDelay: time.Second}, 3,
			0, 0.5, 500 * ms,
		},

		{"equal 1 from 100 ms", EqualJitter, uncapped, 0, 0, 0, 100 * ms},
		{"equal 1 to 200 ms", EqualJitter, uncapped, 0, 0, almostOne, 200*ms - 1},
		{"equal 2 from 200 ms", EqualJitter, uncapped, 1, 0, 0, 200 * ms},
		{"equal 2 to 400 ms", EqualJitter, uncapped, 1, 0, almostOne, 400*ms - 1},
		{"equal 3 from 400 ms", EqualJitter, uncapped, 2, 0, 0, 400 * ms},
		{"equal 3 to 800 ms", EqualJitter, uncapped, 2, 0, almostOne, 800*ms - 1},
		{"equal 4 from 800 ms", EqualJitter, uncapped, 3, 0, 0, 800 * ms},
		{"equal 4 to 1600 ms", EqualJitter, uncapped, 3, 0, almostOne, 1600*ms - 1},
		{"equal is even in between", EqualJitter, uncapped, 3, 0, 0.25, 1000 * ms},
		{"equal is capped, random part included", EqualJitter, usual, 4, 0, 0.5, 2 * time.Second},
		{"equal below the cap is not cut", EqualJitter, usual, 4, 0, 0.125, 1800 * ms},
		{"equal does not overflow where only the sum does", EqualJitter, uncapped, 36, 0, 0.9, forever},
		{"equal does not overflow at 62", EqualJitter, uncapped, 62, 0, 0.5, forever},

		{"decorrelated begins with three times the base", DecorrelatedJitter, usual, 0, 0, 0.5, 200 * ms},
		{"decorrelated is never below the base", DecorrelatedJitter, usual, 3, time.Second, 0, 100 * ms},
		{"decorrelated grows from the wait before", DecorrelatedJitter, usual, 1, 200 * ms, 0.5, 350 * ms},
		{"decorrelated ignores n", DecorrelatedJitter, usual, 40, 200 * ms, 0.5, 350 * ms},
		{"decorrelated is capped", DecorrelatedJitter, usual, 1, time.Second, 0.5, 1050 * ms},
		{"decorrelated takes a short wait before for the base", DecorrelatedJitter, usual, 1, ms, 0.5, 200 * ms},
		{
			"decorrelated does not overflow with the wait before", DecorrelatedJitter,
			RetryPolicy{BaseDelay: 1 << 52, MaxDelay: 1 << 62}, 1, 1 << 61, 0.5, 1<<52 + 1023<<51,
		},
		{"decorrelated does not overflow with the base", DecorrelatedJitter, long, 0, 0, 0.5, 1<<62 + 1<<61},

		{"constant is the base", ConstantDelay, usual, 7, time.Hour, 0.5, 100 * ms},
		{
			"constant is capped", ConstantDelay, RetryPolicy{BaseDelay: time.Minute, MaxDelay: time.Second}, 0, 0, 0.5,
			time.Second,
		},
		{"none is zero", NoDelay, usual, 7, time.Hour, 0.5, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, c.jitter(c.n, c.prev, c.policy, c.random))
		})
	}
}

// A negative wait is a hot loop, and one beyond the cap was not asked for.
func TestNoJitterLeavesItsBounds(t *testing.T) {
	for name, jitter := range map[string]Jitter{
		"full": FullJitter, "equal": EqualJitter, "decorrelated": DecorrelatedJitter, "constant": ConstantDelay,
		"none": NoDelay,
	} {
		for _, p := range []RetryPolicy{
			{
				BaseDelay: 1, MaxDelay: 1}, {BaseDelay: 100 * ms, MaxDelay: 2 * time.Second}, {BaseDelay: 100 * ms,
				MaxDelay: forever,
			},
			{BaseDelay: forever / 3, MaxDelay: forever}, {BaseDelay: forever, MaxDelay: forever}, {},
		} {
			for n := range 70 {
				for _, random := range []float64{0, 0.5, almostOne} {
					for _, prev := range []time.Duration{0, time.Second, forever / 3, forever} {
						wait := jitter(n, prev, p, random)
						require.GreaterOrEqual(t, wait, time.Duration(0), "%s of %+v at %d, %v, %v", name, p, n, prev,
							random)
						require.LessOrEqual(t, wait, p.MaxDelay, "%s of %+v at %d, %v, %v", name, p, n, prev, random)
					}
				}
			}
		}
	}
}

func TestRetryPolicyDefaults(t *testing.T) {
	for _, c := range []struct {
		name     string
		in, want RetryPolicy
	}{
		{
			"zero is the contract's schedule", RetryPolicy{},
			RetryPolicy{
				MaxAttempts: 5, BaseDelay: 100 * ms, MaxDelay: 2 * time.Second, MaxElapsed: 10 * time.Second,
				AttemptTimeout: 10 * time.Second,
			},
		},
		{
			"a set field stays",
			RetryPolicy{MaxAttempts: 1, BaseDelay: 2, MaxDelay: 3, MaxElapsed: 5, AttemptTimeout: 4},
			RetryPolicy{MaxAttempts: 1, BaseDelay: 2, MaxDelay: 3, MaxElapsed: 5, AttemptTimeout: 4},
		},
		{
			"a long base raises the cap", RetryPolicy{BaseDelay: 5 * time.Second},
			RetryPolicy{
				MaxAttempts: 5, BaseDelay: 5 * time.Second, MaxDelay: 5 * time.Second, MaxElapsed: 10 * time.Second,
				AttemptTimeout: 10 * time.Second,
			},
		},
		{
			"a base may be as long as the total", RetryPolicy{BaseDelay: 10 * time.Second},
			RetryPolicy{
				MaxAttempts: 5, BaseDelay: 10 * time.Second, MaxDelay: 10 * time.Second, MaxElapsed: 10 * time.Second,
				AttemptTimeout: 10 * time.Second,
			},
		},
		{
			"a low cap lowers the base", RetryPolicy{MaxDelay: 1},
			RetryPolicy{
				MaxAttempts: 5, BaseDelay: 1, MaxDelay: 1, MaxElapsed: 10 * time.Second,
				AttemptTimeout: 10 * time.Second,
			},
		},
		{
			"a short total lowers the base", RetryPolicy{MaxElapsed: 50 * ms},
			RetryPolicy{
				MaxAttempts: 5, BaseDelay: 50 * ms, MaxDelay: 2 * time.Second, MaxElapsed: 50 * ms,
				AttemptTimeout: 50 * ms,
			},
		},
		{
			"a long attempt raises the total", RetryPolicy{AttemptTimeout: time.Minute},
			RetryPolicy{
				MaxAttempts: 5, BaseDelay: 100 * ms, MaxDelay: 2 * time.Second, MaxElapsed: time.Minute,
				AttemptTimeout: time.Minute,
			},
		},
		{
			"an attempt may take all that is left of the total", RetryPolicy{MaxElapsed: 3 * time.Second},
			RetryPolicy{
				MaxAttempts: 5, BaseDelay: 100 * ms, MaxDelay: 2 * time.Second, MaxElapsed: 3 * time.Second,
				AttemptTimeout: 3 * time.Second,
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.NoError(t, c.in.validate())
			got := c.in.withDefaults()
			require.Equal(t, 800*ms, got.Jitter(3, 0, RetryPolicy{BaseDelay: 200 * ms, MaxDelay: time.Hour}, 0.5),
				"full jitter")
			got.Jitter = nil
			require.Equal(t, c.want, got)
		})
	}
	constant := RetryPolicy{Jitter: ConstantDelay}.withDefaults().Jitter(0, 0,
		RetryPolicy{BaseDelay: 7 * ms, MaxDelay: 7 * ms}, 0.5)
	require.Equal(t, 7*ms, constant, "a jitter that is set stays")
}

func TestRetryPolicyRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy RetryPolicy
		want   string
	}{
		{
			"negative attempts", RetryPolicy{MaxAttempts: -1},
			"redo: retry policy: MaxAttempts is -1, it must not be negative",
		},
		{
			"a negative base", RetryPolicy{BaseDelay: -ms},
			"redo: retry policy: BaseDelay is -1ms, it must not be negative",
		},
		{"a negative cap", RetryPolicy{MaxDelay: -ms}, "redo: retry policy: MaxDelay is -1ms, it must not be negative"},
		{
			"a negative total", RetryPolicy{MaxElapsed: -ms},
			"redo: retry policy: MaxElapsed is -1ms, it must not be negative",
		},
		{
			"a negative attempt", RetryPolicy{AttemptTimeout: -ms},
			"redo: retry policy: AttemptTimeout is -1ms, it must not be negative",
		},
		{
			"a base over the cap", RetryPolicy{BaseDelay: 3 * time.Second, MaxDelay: 2 * time.Second},
			"redo: retry policy: BaseDelay 3s is longer than MaxDelay 2s",
		},
		{
			"a base over the total", RetryPolicy{BaseDelay: 3 * time.Second, MaxElapsed: 2 * time.Second},
			"redo: retry policy: BaseDelay 3s is longer than MaxElapsed 2s",
		},
		{
			"a base over the default total", RetryPolicy{BaseDelay: time.Minute},
			"redo: retry policy: BaseDelay 1m0s is longer than MaxElapsed 10s",
		},
		{
			"an attempt over the total", RetryPolicy{AttemptTimeout: 3 * time.Second, MaxElapsed: 2 * time.Second},
			"redo: retry policy: AttemptTimeout 3s is longer than MaxElapsed 2s",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.EqualError(t, c.policy.validate(), c.want)
		})
	}
	if more := int64(math.MaxInt32 + 1); int64(int(more)) == more {
		require.EqualError(t, RetryPolicy{MaxAttempts: int(more)}.validate(),
			"redo: retry policy: MaxAttempts is 2147483648, at most 2147483647 are possible")
	}
}
