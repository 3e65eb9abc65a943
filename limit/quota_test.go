package limit

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A window is a server that allows a number of requests in each window of 10 s.
type window struct {
	mu      sync.Mutex
	start   time.Time
	n       int
	used    int
	refused int
}

const (
	windowLength = 10 * time.Second
	windowQuota  = 20
)

// serve handles a request and returns what the response reports.
func (w *window) serve() Response {
	time.Sleep(5 * time.Millisecond)
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Since(w.start)
	if n := int(now / windowLength); n != w.n {
		w.n, w.used = n, 0
	}
	r := Response{Quota: true, Reset: windowLength - now%windowLength}
	if w.used == windowQuota {
		w.refused++
		r.Limited = true
		return r
	}
	w.used++
	r.Remaining = windowQuota - w.used
	return r
}

func TestConcurrentCallersKeepWithinTheQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &window{start: time.Now()}
		l := PerDestination(func() Limiter { return NewQuotaLimiter() })
		d := Destination{Host: "api"}
		ctx, cancel := context.WithTimeout(t.Context(), 10*windowLength)
		defer cancel()
		var callers sync.WaitGroup
		var mu sync.Mutex
		served := 0
		for range 16 {
			callers.Go(func() {
				for Wait(ctx, For(l, d)) == nil {
					r := w.serve()
					Report(l, d, r)
					mu.Lock()
					if !r.Limited {
						served++
					}
					mu.Unlock()
				}
			})
		}
		callers.Wait()
		require.GreaterOrEqual(t, served, 9*windowQuota, "nine of ten windows")
		require.LessOrEqual(t, w.refused, 10, "an attempt at the end of a window may arrive in the next one")
	})
}

func TestQuotaLimiter(t *testing.T) {
	left := func(l *QuotaLimiter, n int, reset time.Duration) {
		Report(l, Destination{}, Response{Quota: true, Remaining: n, Reset: reset})
	}
	t.Run("limits nothing before a response reports a quota", func(t *testing.T) {
		l := NewQuotaLimiter()
		for range 1000 {
			require.NoError(t, l.Wait(t.Context()))
		}
		require.False(t, l.matters())
	})
	t.Run("waits until the quota is restored", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, start := NewQuotaLimiter(), time.Now()
			left(l, 1, time.Minute)
			require.NoError(t, l.Wait(t.Context()))
			require.Zero(t, time.Since(start))
			left(l, 0, time.Minute)
			require.True(t, l.matters())
			require.NoError(t, l.Wait(t.Context()))
			require.Equal(t, time.Minute, time.Since(start))
		})
	})
	t.Run("counts the attempts under way", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := NewQuotaLimiter()
			left(l, 3, time.Minute)
			Report(l, Destination{}, Response{}) // it reports no quota
			for range 3 {
				require.NoError(t, l.Wait(t.Context()))
			}
			done := make(chan time.Duration, 1)
			start := time.Now()
			go func() { _ = l.Wait(t.Context()); done <- time.Since(start) }()
			time.Sleep(time.Second)
			left(l, 2, time.Minute) // two are under way
			synctest.Wait()
			left(l, 2, time.Minute) // one is under way
			require.Equal(t, time.Second, <-done)
		})
	})
	t.Run("refuses an attempt whose deadline is before that", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, start := NewQuotaLimiter(), time.Now()
			left(l, 0, time.Minute)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			require.ErrorIs(t, Wait(ctx, l), ErrLimited)
			require.Zero(t, time.Since(start))
			require.NoError(t, ctx.Err())
		})
	})
	t.Run("ends with its context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := NewQuotaLimiter()
			left(l, 0, time.Minute)
			gone := errors.New("gone")
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() { time.Sleep(time.Second); cancel(gone) }()
			require.ErrorIs(t, Wait(ctx, l), gone)
		})
	})
	t.Run("forgets attempts without a response", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, start := NewQuotaLimiter(), time.Now()
			left(l, 1, time.Minute)
			for range 20 { // none of them gets a response
				require.NoError(t, l.Wait(t.Context()))
			}
			require.Less(t, time.Since(start), 2*time.Minute)
		})
	})
	for name, resp := range map[string]Response{
		"an attempt without a response":   {None: true},
		"a failure that reports no quota": {Failed: true},
	} {
		t.Run("gets back "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, start := PerDestination(func() Limiter { return NewQuotaLimiter() }), time.Now()
				end := func(r Response) { Report(l, Destination{}, r) }
				for range 20 { // no quota is known yet
					require.NoError(t, For(l, Destination{}).Wait(t.Context()))
					end(resp)
				}
				require.NoError(t, For(l, Destination{}).Wait(t.Context()))
				end(Response{Quota: true, Remaining: 5, Reset: time.Hour})
				for range 20 {
					require.NoError(t, For(l, Destination{}).Wait(t.Context()))
					end(resp)
				}
				for range 5 {
					require.NoError(t, For(l, Destination{}).Wait(t.Context()))
				}
				require.Zero(t, time.Since(start), "the quota is not used")
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				require.Error(t, For(l, Destination{}).Wait(ctx), "it is now")
			})
		})
	}
	t.Run("gets back no more than the server allows", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := NewQuotaLimiter()
			for range 11 {
				require.NoError(t, l.Wait(t.Context()))
			}
			left(l, 5, time.Hour)
			for range 10 {
				Report(l, Destination{}, Response{None: true})
			}
			Report(l, Destination{}, Response{None: true}) // none is under way
			require.Equal(t, 5, l.left)
			time.Sleep(time.Hour)
			require.NoError(t, l.Wait(t.Context()))
			Report(l, Destination{}, Response{None: true})
			require.Equal(t, l.most, l.left)
		})
	})
	t.Run("gets back nothing of a quota that is used up", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := NewQuotaLimiter()
			for range 4 {
				require.NoError(t, l.Wait(t.Context()))
			}
			Report(l, Destination{}, Response{Limited: true, Quota: true, Reset: time.Hour}) // three are under way
			Report(l, Destination{}, Response{None: true})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			require.Error(t, l.Wait(ctx), "the quota is restored in an hour")
		})
	})
	t.Run("believes no late response", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, start := NewQuotaLimiter(), time.Now()
			left(l, 0, time.Minute)
			left(l, 1, time.Minute) // sent before the other one
			require.NoError(t, l.Wait(t.Context()))
			require.Equal(t, time.Minute, time.Since(start))
			left(l, 5, time.Minute) // of the next window
			for range 5 {
				require.NoError(t, l.Wait(t.Context()))
			}
			require.Equal(t, time.Minute, time.Since(start))
		})
	})
	t.Run("takes nothing for a context that has ended", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := NewQuotaLimiter()
			left(l, 1, time.Minute)
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			require.ErrorIs(t, l.Wait(ended), context.Canceled)
			start := time.Now()
			require.NoError(t, l.Wait(t.Context()))
			require.Zero(t, time.Since(start))
		})
	})
	t.Run("takes any number for a quota", func(t *testing.T) {
		for _, n := range []int{math.MinInt, -1, math.MaxInt} {
			synctest.Test(t, func(t *testing.T) {
				l := NewQuotaLimiter()
				left(l, n, time.Second)
				time.Sleep(time.Second)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				require.NoError(t, l.Wait(ctx), "the quota is restored: %d", n)
			})
		}
	})
	t.Run("is made by its function", func(t *testing.T) {
		require.ErrorContains(t, Validate(&QuotaLimiter{}), "NewQuotaLimiter")
		require.NoError(t, Validate(NewQuotaLimiter()))
	})
}
