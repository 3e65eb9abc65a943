package conformance

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/redo-go/redo/internal/wire"
)

// A target may limit its clients. A refusal because of load is not a result of the request, so the run waits and
// sends it again.
const (
	maxPatience = 30 * time.Second // for one request
	maxHint     = 10 * time.Second // the longest Retry-After that is honoured
	firstPause  = 50 * time.Millisecond
	maxPause    = 2 * time.Second
	// patienceUnavailable bounds the wait for a 503 without Retry-After. If it stays, it is the result.
	patienceUnavailable = 2 * time.Second
)

// gate spaces the requests of a run. The zero value lets all requests through without delay.
type gate struct {
	interval time.Duration // between two requests; zero: none

	mu   sync.Mutex
	next time.Time // no request before this time
}

// pass waits until n requests may be sent together. It reports whether ctx is still live by then.
func (g *gate) pass(ctx context.Context, n int) bool {
	for {
		g.mu.Lock()
		wait := time.Until(g.next)
		if wait <= 0 {
			g.next = time.Now().Add(time.Duration(n) * g.interval)
			g.mu.Unlock()
			return ctx.Err() == nil
		}
		g.mu.Unlock()
		if !pause(ctx, wait) {
			return false
		}
	}
}

// hold lets no request through for d.
func (g *gate) hold(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if until := time.Now().Add(d); until.After(g.next) {
		g.next = until
	}
}

// busy reports whether a refuses a request because of the target's load, and how long to wait. Such a response is
// 429, or 503 with Retry-After.
func (a *answer) busy(otherwise time.Duration) (time.Duration, bool) {
	if a.err != nil || a.status != http.StatusTooManyRequests && a.status != http.StatusServiceUnavailable {
		return 0, false
	}
	limited := a.status == http.StatusTooManyRequests
	hint, ok := wire.Hint(a.header, a.done, limited)
	if !ok && !limited {
		return 0, false
	}
	return max(hint, otherwise), true
}

// unavailable reports whether a is a 503 without Retry-After. RFC 9110 does not require one of an overloaded server.
func (a *answer) unavailable() bool {
	_, busy := a.busy(0)
	return a.err == nil && a.status == http.StatusServiceUnavailable && !busy
}

// exchange sends a request over d. It repeats the request while the target is busy, and returns the last response.
func (r *runner) exchange(ctx context.Context, d *dialer, req request) *answer {
	return r.patiently(ctx, d, req, nil)
}

// patiently is like exchange, but starts from a first response. That response is nil if there is none.
func (r *runner) patiently(ctx context.Context, d *dialer, req request, a *answer) *answer {
	var waited time.Duration
	refusals := 0
	for again := firstPause; ; again = min(2*again, maxPause) {
		if a == nil {
			if !r.gate.pass(ctx, 1) {
				now := time.Now()
				return &answer{sent: now, done: now, err: context.Cause(ctx)}
			}
			a = d.exchange(ctx, req)
		}
		a = r.despiteDrop(ctx, d, req, a)
		wait, busy := a.busy(again)
		if a.unavailable() && waited+again <= patienceUnavailable {
			wait, busy = again, true
		}
		if !busy {
			a.refusals = refusals
			return a
		}
		if waited += wait; wait > maxHint || waited > maxPatience {
			a.refusals, a.overload = refusals, true
			return a
		}
		r.gate.hold(wait)
		refusals++
		a = nil
	}
}

// despiteDrop returns a. If the connection broke before the whole response, it sends the request once more and returns
// that response. A request without a key is not sent again, because it may have its effect again.
func (r *runner) despiteDrop(ctx context.Context, d *dialer, req request, a *answer) *answer {
	keyed := req.key != "" || req.has(r.target.keyHeader())
	if !a.broke() || !keyed && !wire.SafeMethod(req.method) || !r.gate.pass(ctx, 1) {
		return a
	}
	again := d.exchange(ctx, req)
	again.sent, again.resent = a.sent, true // the first one may have had the effect
	return again
}
