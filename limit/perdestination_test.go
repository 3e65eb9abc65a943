package limit

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
)

// full reports whether l has no room now. It takes the room that it finds.
func full(t *testing.T, l Limiter) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	return l.Wait(ctx) != nil
}

// adaptive makes limiters of a rate of 100.
func adaptive() Limiter {
	l, err := NewAdaptiveLimiter(100, 1)
	if err != nil {
		panic(err) // the arguments are valid
	}
	return l
}

func limitOf(l Limiter, d Destination) float64 {
	return For(l, d).(*destinationLimiter).limiter.(*AdaptiveLimiter).Limit()
}

func bounded(t *testing.T, l Limiter) {
	t.Helper()
	requireBounded(t, &l.(*perDestination).limiters)
}

func TestPerDestination(t *testing.T) {
	for name, f := range map[string]func(*testing.T){
		"makes one limiter for each destination": func(t *testing.T) {
			made := 0
			l := PerDestination(func() Limiter { made++; return rate.NewLimiter(1, 1) })
			require.Same(t, For(l, bank), For(l, bank))
			require.NotSame(t, For(l, bank), For(l, shop))
			require.Equal(t, 2, made)
		},
		"a destination without room does not starve another": func(t *testing.T) { // trap 62
			l := PerDestination(func() Limiter { return rate.NewLimiter(1, 1) })
			require.False(t, full(t, For(l, bank)))
			require.True(t, full(t, For(l, bank)))
			require.False(t, full(t, For(l, shop)))
		},
		"reports go to the limiter of the destination": func(t *testing.T) {
			l := PerDestination(adaptive)
			For(l, bank).(Reporter).Report(true)
			require.Equal(t, 50.0, limitOf(l, bank))
			require.Equal(t, 100.0, limitOf(l, shop))
		},
		"reports to a limiter that does not learn are ignored": func(t *testing.T) {
			l := PerDestination(func() Limiter { return rate.NewLimiter(1, 1) })
			For(l, bank).(Reporter).Report(true)
			require.False(t, full(t, For(l, bank)))
		},
		"alone it is one limiter": func(t *testing.T) {
			l := PerDestination(func() Limiter { return rate.NewLimiter(1, 1) })
			require.False(t, full(t, l))
			require.True(t, full(t, l))
		},
		"nil limits nothing": func(t *testing.T) {
			for _, none := range []Limiter{nil, (*rate.Limiter)(nil), limiterFunc(nil)} {
				l := PerDestination(func() Limiter { return none })
				require.True(t, For(l, bank) == nil, "an interface that is nil itself")
				require.NoError(t, l.Wait(t.Context()))
			}
		},
		"without a function its Wait refuses": func(t *testing.T) {
			l := PerDestination(nil)
			require.ErrorIs(t, l.Wait(t.Context()), errNoFunction)
			require.ErrorIs(t, For(l, bank).Wait(t.Context()), errNoFunction)
		},
		"others are shared as they are": func(t *testing.T) {
			l := rate.NewLimiter(1, 1)
			require.Same(t, l, For(l, bank))
			require.True(t, For(nil, bank) == nil)
		},
		"the function may use the limiter that it makes for": func(t *testing.T) {
			var l Limiter
			l = PerDestination(func() Limiter {
				if own := l.(*perDestination).known(bank); own != nil {
					return own
				}
				return value{}
			})
			require.NotNil(t, For(l, bank))
			require.NotNil(t, For(l, shop))
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
	}
}

func TestPerDestinationOfManyDestinations(t *testing.T) {
	for name, f := range map[string]func(*testing.T){
		"stays bounded when all are idle": func(t *testing.T) {
			l := PerDestination(func() Limiter { return value{} })
			for i := range many {
				require.NoError(t, For(l, nth(i)).Wait(t.Context()))
			}
			bounded(t, l)
		},
		"stays bounded when all are lowered": func(t *testing.T) {
			l := PerDestination(adaptive)
			for i := range many {
				For(l, nth(i)).(Reporter).Report(true)
			}
			bounded(t, l)
			require.Equal(t, 50.0, limitOf(l, nth(many-1)))
			require.Equal(t, 100.0, limitOf(l, nth(0)), "the least recently used limiter is new again")
		},
		"stays bounded when none is limited": func(t *testing.T) {
			l := PerDestination(func() Limiter { return nil })
			for i := range many {
				require.True(t, For(l, nth(i)) == nil)
			}
			bounded(t, l)
		},
		"keeps a lowered limiter": func(t *testing.T) {
			l := PerDestination(adaptive)
			For(l, bank).(Reporter).Report(true)
			for i := range many {
				For(l, nth(i))
			}
			bounded(t, l)
			require.Equal(t, 50.0, limitOf(l, bank))
		},
		"keeps an adaptive limiter without room": func(t *testing.T) {
			l := PerDestination(adaptive)
			require.False(t, full(t, For(l, bank)))
			for i := range many {
				For(l, nth(i))
			}
			require.True(t, full(t, For(l, bank)))
		},
		"keeps a limiter without room until it has refilled": func(t *testing.T) {
			made := 0
			l := PerDestination(func() Limiter { made++; return rate.NewLimiter(1, 1) })
			require.False(t, full(t, For(l, bank)))
			for i := range many {
				For(l, nth(i))
			}
			require.True(t, full(t, For(l, bank)))
			time.Sleep(time.Second)
			for i := range many {
				For(l, nth(i))
			}
			before := made
			For(l, bank)
			require.Equal(t, before+1, made)
		},
		"keeps a limiter that is waited for, of any kind": func(t *testing.T) {
			room, made := make(chan struct{}), 0
			l := PerDestination(func() Limiter {
				made++
				return limiterFunc(func(context.Context) error { <-room; return nil })
			})
			var wg sync.WaitGroup
			wg.Go(func() { _ = For(l, bank).Wait(context.Background()) })
			synctest.Wait()
			for i := range many {
				For(l, nth(i))
			}
			For(l, bank)
			require.Equal(t, 1+many, made)
			close(room)
			wg.Wait()
		},
		"a limiter that is dropped lets its waiters end": func(t *testing.T) {
			l := PerDestination(func() Limiter { return rate.NewLimiter(1, 1) })
			var wg sync.WaitGroup
			var sent atomic.Int64
			for i := range many {
				own := For(l, nth(i))
				require.False(t, full(t, own))
				wg.Go(func() {
					if own.Wait(t.Context()) == nil {
						sent.Add(1)
					}
				})
			}
			wg.Wait()
			require.EqualValues(t, many, sent.Load())
			bounded(t, l)
		},
		"loses none of a few": func(t *testing.T) {
			made := 0
			l := PerDestination(func() Limiter { made++; return value{} })
			for i := range many {
				For(l, nth(i%8))
			}
			require.Equal(t, 8, made)
		},
		"loses none of as many as it keeps": func(t *testing.T) {
			made := 0
			l := PerDestination(func() Limiter { made++; return value{} })
			for i := range 2 * maxDestinations {
				For(l, nth(i%maxDestinations))
			}
			require.Equal(t, maxDestinations, made)
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
	}
}

func TestPerDestinationUnderConcurrency(t *testing.T) {
	for name, f := range map[string]func(*testing.T){
		"few destinations": func(t *testing.T) {
			l := PerDestination(func() Limiter { return rate.NewLimiter(rate.Every(time.Hour), 1) })
			var allowed atomic.Int64
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for i := range 800 {
						if !full(t, For(l, nth(i%8))) {
							allowed.Add(1)
						}
					}
				})
			}
			wg.Wait()
			require.EqualValues(t, 8, allowed.Load())
		},
		"many destinations": func(t *testing.T) {
			l := PerDestination(adaptive)
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for i := range many {
						own := For(l, nth(i))
						_ = full(t, own)
						own.(Reporter).Report(i%3 == 0)
					}
				})
			}
			wg.Wait()
			bounded(t, l)
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
	}
}

// A caller that waits keeps its limiter, also after others have waited.
func TestWaitingCallersAreCounted(t *testing.T) {
	pass := make(chan struct{})
	l := &destinationLimiter{limiter: waitFor(pass)}
	done := make(chan error)
	for range 3 {
		go func() { done <- l.Wait(t.Context()) }()
		require.Eventually(t, l.matters, time.Minute, time.Millisecond)
		pass <- struct{}{}
		require.NoError(t, <-done)
		require.False(t, l.matters())
	}
}

// waitFor is a Limiter that lets an attempt pass for each value.
type waitFor chan struct{}

func (w waitFor) Wait(context.Context) error { <-w; return nil }

func TestALimiterThatCannotBeUsedRefuses(t *testing.T) {
	d := Destination{Host: "a"}
	for want, unusable := range map[string]Limiter{
		"NewQuotaLimiter": &QuotaLimiter{}, "NewAdaptiveLimiter": &AdaptiveLimiter{}, "nil function": PerDestination(nil),
	} {
		l := PerDestination(func() Limiter { return unusable })
		require.ErrorContains(t, For(l, d).Wait(t.Context()), want)
		Report(l, d, Response{Limited: true, Quota: true})
		Report(l, d, Response{None: true})
		require.ErrorContains(t, For(l, d).Wait(t.Context()), want)
	}
}
