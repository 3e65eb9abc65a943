package redo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// A Limiter makes each attempt wait until it may be sent. *rate.Limiter of golang.org/x/time/rate is one. Wait
// returns an error, having taken nothing, when the context ends or would end first. It must be safe for
// concurrent use.
//
// A Limiter that also has Report(limited bool) is told after each attempt whether the server answered that
// there are too many requests; [AdaptiveLimiter] uses it.
type Limiter interface {
	Wait(ctx context.Context) error
}

// limitReporter is the extra power of a Limiter that learns.
type limitReporter interface{ Report(limited bool) }

// PerDestination gives every destination (scheme and host) a limiter of its own, made by newLimiter when it is
// first called; a nil one limits nothing. Its Wait, called without redo, shares one limiter.
func PerDestination(newLimiter func() Limiter) Limiter {
	return &perDestination{make: newLimiter}
}

type perDestination struct {
	make func() Limiter
	m    sync.Map // destination → Limiter
}

func (p *perDestination) of(d destination) Limiter {
	l, ok := p.m.Load(d)
	if !ok {
		l, _ = p.m.LoadOrStore(d, p.make())
	}
	limiter, _ := l.(Limiter) // nil: this destination is not limited
	return limiter
}

func (p *perDestination) Wait(ctx context.Context) error {
	if l := p.of(destination{}); l != nil {
		return l.Wait(ctx)
	}
	return ctx.Err()
}

// limiterFor picks the destination's limiter, nil when there is none.
func limiterFor(l Limiter, d destination) Limiter {
	if p, ok := l.(*perDestination); ok {
		return p.of(d)
	}
	return l
}

// An AdaptiveLimiter keeps a client below a rate that it does not know: it starts at the most it may send,
// halves on each answer that says "too many requests", at most once per second, and climbs back by a
// twentieth of the most per second while there are none. Make one with [NewAdaptiveLimiter]; it is safe for
// concurrent use.
type AdaptiveLimiter struct {
	limiter  *rate.Limiter
	most     rate.Limit
	mu       sync.Mutex
	changed  time.Time // of the last change of the rate
	lowered  time.Time // of the last halving
	nowFunc  func() time.Time
	lowest   rate.Limit
	stepping rate.Limit // per second
}

// NewAdaptiveLimiter allows at most perSecond attempts a second, in bursts of at most burst. Both must be
// positive, and the rate finite.
func NewAdaptiveLimiter(perSecond float64, burst int) (*AdaptiveLimiter, error) {
	switch {
	case !(perSecond > 0) || math.IsInf(perSecond, 1):
		return nil, fmt.Errorf("redo: adaptive limiter: the rate is %v, it must be positive and finite", perSecond)
	case burst < 1:
		return nil, fmt.Errorf("redo: adaptive limiter: the burst is %d, it must be positive", burst)
	}
	most := rate.Limit(perSecond)
	return &AdaptiveLimiter{
		limiter: rate.NewLimiter(most, burst), most: most,
		lowest: min(most, max(most/100, 0.1)), stepping: most / 20, nowFunc: time.Now,
	}, nil
}

// Wait waits until an attempt may be sent.
func (l *AdaptiveLimiter) Wait(ctx context.Context) error { return l.limiter.Wait(ctx) }

// Report tells whether the server answered that there are too many requests.
func (l *AdaptiveLimiter) Report(limited bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.nowFunc()
	limit := l.limiter.Limit()
	switch {
	case limited && now.Sub(l.lowered) >= time.Second:
		// Answers to requests that were under way when the rate was lowered say nothing about the new rate.
		l.limiter.SetLimitAt(now, max(l.lowest, limit/2))
		l.lowered, l.changed = now, now
	case !limited && limit < l.most:
		step := l.stepping * rate.Limit(min(1, now.Sub(l.changed).Seconds()))
		l.limiter.SetLimitAt(now, min(l.most, limit+step))
		l.changed = now
	}
}

// Limit returns the present rate, in attempts per second.
func (l *AdaptiveLimiter) Limit() float64 { return float64(l.limiter.Limit()) }

// waitLimited waits for the limiter. A limiter that refuses because the deadline is too near is told apart
// from the caller's own end.
func waitLimited(ctx context.Context, l Limiter) error {
	if err := l.Wait(ctx); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return errors.Join(ErrLimited, err)
	}
	return nil
}
