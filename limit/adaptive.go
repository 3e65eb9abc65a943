package limit

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// AdaptiveLimiter keeps a client below the rate limit of a server when the client does not know that limit. It
// starts at the highest rate. It halves the rate when the server refuses an attempt for too many requests, at most
// once per second. It raises the rate by a twentieth of the highest rate per second while the server refuses none.
// The rate never falls below a hundredth of the highest rate or one attempt in 10 seconds, whichever is more.
//
// Make one with [NewAdaptiveLimiter]; the zero AdaptiveLimiter is not valid. It is safe for concurrent use.
type AdaptiveLimiter struct {
	limiter *rate.Limiter
	highest rate.Limit
	lowest  rate.Limit
	mu      sync.Mutex
	changed time.Time // the last change of the rate
	lowered time.Time // the last halving
}

// NewAdaptiveLimiter returns a limiter that allows at most perSecond attempts per second, in bursts of at most
// burst attempts. It returns an error if perSecond is not positive and finite, or if burst is not positive.
func NewAdaptiveLimiter(perSecond float64, burst int) (*AdaptiveLimiter, error) {
	switch {
	case !(perSecond > 0) || math.IsInf(perSecond, 1):
		return nil, fmt.Errorf("limit: adaptive limiter: the rate is %v, it must be positive and finite", perSecond)
	case burst < 1:
		return nil, fmt.Errorf("limit: adaptive limiter: the burst is %d, it must be positive", burst)
	}
	highest := rate.Limit(perSecond)
	return &AdaptiveLimiter{
		limiter: rate.NewLimiter(highest, burst),
		highest: highest,
		lowest:  min(highest, max(highest/100, 0.1)),
	}, nil
}

// Wait waits until an attempt may be sent. It returns an error if ctx ends, or would end, before that.
func (l *AdaptiveLimiter) Wait(ctx context.Context) error { return l.limiter.Wait(ctx) }

// Report adapts the rate to the response of an attempt. limited is true if the server refused it for too many
// requests.
func (l *AdaptiveLimiter) Report(limited bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, limit := time.Now(), l.limiter.Limit()
	switch {
	case limited && now.Sub(l.lowered) >= time.Second:
		// The responses to requests that were in flight when the rate was lowered don't show the effect of the
		// new rate. That is why it is lowered once per second.
		l.limiter.SetLimitAt(now, max(l.lowest, limit/2))
		l.lowered, l.changed = now, now
	case !limited && limit < l.highest:
		step := l.highest / 20 * rate.Limit(min(1, now.Sub(l.changed).Seconds()))
		l.limiter.SetLimitAt(now, min(l.highest, limit+step))
		l.changed = now
	}
}

// Limit returns the current rate, in attempts per second.
func (l *AdaptiveLimiter) Limit() float64 { return float64(l.limiter.Limit()) }

// matters reports whether the rate is lowered or the bucket is not full.
func (l *AdaptiveLimiter) matters() bool { return l.limiter.Limit() < l.highest || used(l.limiter) }
