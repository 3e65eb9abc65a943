package limit

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"
)

// QuotaLimiter keeps a client within the quota that a server reports in the header RateLimit. It counts the attempts
// under way, so that concurrent callers share what is left. When the quota is used up, attempts wait until it is
// restored. It limits nothing until a response has reported a quota.
//
// Make one with [NewQuotaLimiter] for each destination; see [PerDestination]. It is safe for concurrent use.
type QuotaLimiter struct {
	mu       sync.Mutex
	known    bool      // a response has reported a quota
	most     int       // the highest quota that was reported
	left     int       // attempts that may be sent
	under    int       // attempts under way
	restored time.Time // when the quota is restored; zero: it has been, and no response has reported the new one
	window   time.Time // restored, as the first response since then reported it; zero: none has
	least    int       // the least quota that a response of this window reported
	changed  chan struct{}
}

// NewQuotaLimiter returns a limiter for one destination.
func NewQuotaLimiter() *QuotaLimiter { return &QuotaLimiter{changed: make(chan struct{})} }

// Wait waits until an attempt is within the quota. It returns an error if ctx ends, or would end, before that.
func (l *QuotaLimiter) Wait(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		wait, idle, changed := l.take(time.Now())
		if wait == 0 {
			return nil
		}
		if deadline, ok := ctx.Deadline(); ok && idle && time.Until(deadline) < wait {
			return fmt.Errorf("limit: the server's quota is restored in %v, after the deadline", wait)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// take takes one attempt from the quota. If nothing is left, it returns how long to wait, and a channel that is closed
// at the next response. idle reports that no attempt is under way, so that nothing changes before the wait is over.
func (l *QuotaLimiter) take(now time.Time) (wait time.Duration, idle bool, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known && !l.restored.IsZero() && !now.Before(l.restored) {
		// An attempt without a response is forgotten here.
		l.left, l.under, l.restored, l.window = l.most, 0, time.Time{}, time.Time{}
	}
	if l.known && l.left == 0 {
		if l.restored.IsZero() {
			// The responses of this quota's first attempts report it. If there is none, the next attempts may follow.
			l.restored = now.Add(time.Second)
		}
		return l.restored.Sub(now), l.under == 0, l.changed
	}
	l.left--
	l.under++
	return 0, false, nil
}

// Report learns that an attempt has ended with a response.
func (l *QuotaLimiter) Report(bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.under = max(0, l.under-1)
}

// giveBack returns an attempt of which the server shows no sign. It may have counted it, and its next response shows
// that. Otherwise the failures of an outage would use up a quota that nobody has used.
func (l *QuotaLimiter) giveBack() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.under == 0 {
		return // the quota was restored since then
	}
	l.under--
	most := l.least
	if l.window.IsZero() {
		most = l.most
	}
	l.left = max(0, min(l.left+1, most-l.under))
	l.wake()
}

// ReportQuota learns that remaining more attempts may be sent until the quota is restored, after reset. A negative
// number is zero.
func (l *QuotaLimiter) ReportQuota(remaining int, reset time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known = true
	remaining = min(max(remaining, 0), math.MaxInt32-1) // one more must not overflow an int of 32 bits
	l.most = max(l.most, remaining+1)
	l.restored = time.Now().Add(reset)
	// Servers report whole seconds. Responses may arrive in another order, and a late one shows a quota that was since
	// used.
	if !l.window.IsZero() && l.restored.Before(l.window.Add(time.Second)) {
		remaining = min(remaining, l.least)
	} else {
		l.window = l.restored
	}
	l.least = remaining
	// The server may have counted some of the attempts under way already. Their responses will show it.
	l.left = max(0, remaining-l.under)
	l.wake()
}

// wake wakes the waiting callers.
func (l *QuotaLimiter) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// matters reports whether less than the quota is left.
func (l *QuotaLimiter) matters() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known && l.left < l.most
}
