package limit

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNewAdaptiveLimiterRefuses(t *testing.T) {
	for _, c := range []struct {
		name  string
		rate  float64
		burst int
		want  string
	}{
		{"a rate of zero", 0, 1, "the rate is 0, it must be positive and finite"},
		{"a negative rate", -1, 1, "the rate is -1, it must be positive and finite"},
		{"a rate that is no number", math.NaN(), 1, "the rate is NaN, it must be positive and finite"},
		{"an infinite rate, which has no half", math.Inf(1), 1, "the rate is +Inf, it must be positive and finite"},
		{"a burst of zero", 1, 0, "the burst is 0, it must be positive"},
		{"a negative burst", 1, -1, "the burst is -1, it must be positive"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := NewAdaptiveLimiter(c.rate, c.burst)
			require.EqualError(t, err, "limit: adaptive limiter: "+c.want)
			require.Nil(t, l)
		})
	}
}

// climb reports n responses that were not refused, one after each wait.
func climb(l *AdaptiveLimiter, n int, wait time.Duration) {
	for range n {
		time.Sleep(wait)
		l.Report(false)
	}
}

func TestAdaptiveLimiter(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps func(l *AdaptiveLimiter)
		want  float64
	}{
		{"starts at the highest rate", func(*AdaptiveLimiter) {}, 100},
		{"stays there without refusals", func(l *AdaptiveLimiter) { climb(l, 1, time.Minute) }, 100},
		{"halves after a refusal", func(l *AdaptiveLimiter) { l.Report(true) }, 50},
		{"halves once within a second", func(l *AdaptiveLimiter) {
			l.Report(true)
			l.Report(true)
			time.Sleep(time.Second - 1)
			l.Report(true)
		}, 50},
		{"halves again after a second", func(l *AdaptiveLimiter) {
			l.Report(true)
			time.Sleep(time.Second)
			l.Report(true)
		}, 25},
		{"does not climb without time", func(l *AdaptiveLimiter) { l.Report(true); l.Report(false) }, 50},
		{"climbs by a twentieth per second", func(l *AdaptiveLimiter) { l.Report(true); climb(l, 1, time.Second) }, 55},
		{"climbs by parts of it", func(l *AdaptiveLimiter) { l.Report(true); climb(l, 4, time.Second/4) }, 55},
		{"climbs by one step after a silence", func(l *AdaptiveLimiter) { l.Report(true); climb(l, 1, time.Hour) }, 55},
		{"climbs to the highest rate", func(l *AdaptiveLimiter) { l.Report(true); climb(l, 30, time.Second) }, 100},
		{"never falls below a hundredth", func(l *AdaptiveLimiter) {
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
		for _, c := range []struct{ highest, lowest float64 }{{1, 0.1}, {0.05, 0.05}} {
			l, err := NewAdaptiveLimiter(c.highest, 1)
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
		require.Equal(t, time.Second/10, time.Since(start))
		l.Report(true)
		start = time.Now()
		require.NoError(t, l.Wait(t.Context()))
		require.Equal(t, time.Second/5, time.Since(start))
	})
}
