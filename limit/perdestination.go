package limit

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/redo-go/redo/internal/null"
)

// PerDestination returns a Limiter that holds a separate limiter for each destination. [For] returns the limiter of
// one destination. It calls newLimiter at the destination's first use, and again after the destination was dropped.
// Two concurrent first uses may both call newLimiter; one of the results is then not used. newLimiter must be safe
// for concurrent use. If it returns nil or a nil pointer, the destination has no limit. If it returns a limiter that
// [Validate] refuses, every Wait returns that error.
//
// A destination whose limiter is in use is dropped last. A limiter is in use while a caller waits for it. A
// *rate.Limiter also is until it is full, an *AdaptiveLimiter until it is full and not lowered, and a *QuotaLimiter
// until its whole quota is left.
//
// The Wait of the result does not know the destination: all callers of it share one limiter. If newLimiter is nil,
// [Validate] and Wait return an error.
func PerDestination(newLimiter func() Limiter) Limiter {
	return &perDestination{make: newLimiter, limiters: newTable[Destination]((*destinationLimiter).matters)}
}

// For returns the limiter of d if l was made by [PerDestination], and l otherwise. It returns nil if d has no limit.
// Call it again for each attempt, because a limiter that is kept outside may meanwhile have been replaced.
//
// The result of a PerDestination is always a [Reporter] and a [QuotaReporter]. Their methods do nothing if the limiter
// of d is none.
func For(l Limiter, d Destination) Limiter {
	p, ok := l.(*perDestination)
	if !ok || p.make == nil {
		return l
	}
	if own := p.of(d); own.limiter != nil {
		return own
	}
	return nil
}

type perDestination struct {
	make     func() Limiter
	mu       sync.Mutex
	limiters table[Destination, *destinationLimiter]
}

// of returns the limiter of d. It calls make without the lock, because make is the user's code.
func (p *perDestination) of(d Destination) *destinationLimiter {
	if l := p.known(d); l != nil {
		return l
	}
	made := &destinationLimiter{}
	if l := p.make(); !null.Is(l) {
		made.limiter = l
		if err := Validate(l); err != nil {
			made.limiter = unusable{err}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.limiters.get(d); l != nil {
		return l
	}
	p.limiters.add(d, made)
	return made
}

// unusable refuses every attempt, because newLimiter has returned a limiter that can't be used.
type unusable struct{ err error }

func (l unusable) Wait(context.Context) error { return l.err }

func (p *perDestination) known(d Destination) *destinationLimiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limiters.get(d)
}

func (p *perDestination) Wait(ctx context.Context) error {
	if p.make == nil {
		return errNoFunction
	}
	if l := p.of(Destination{}); l.limiter != nil {
		return l.Wait(ctx)
	}
	return ctx.Err()
}

// destinationLimiter is the limiter of one destination. It counts the callers that wait, so that it is not dropped
// under them.
type destinationLimiter struct {
	limiter Limiter // nil: no limit
	waiting atomic.Int64
}

func (l *destinationLimiter) Wait(ctx context.Context) error {
	l.waiting.Add(1)
	defer l.waiting.Add(-1)
	return l.limiter.Wait(ctx)
}

func (l *destinationLimiter) Report(limited bool) {
	if r, ok := l.limiter.(Reporter); ok {
		r.Report(limited)
	}
}

func (l *destinationLimiter) ReportQuota(remaining int, reset time.Duration) {
	if r, ok := l.limiter.(QuotaReporter); ok {
		r.ReportQuota(remaining, reset)
	}
}

// matters reports whether a new limiter would let more through than this one. It reads the state of the limiters
// that it knows. Any other limiter matters while a caller waits for it.
func (l *destinationLimiter) matters() bool {
	if l.waiting.Load() > 0 {
		return true
	}
	switch own := l.limiter.(type) {
	case *rate.Limiter:
		return used(own)
	case *AdaptiveLimiter:
		return own.matters()
	case *QuotaLimiter:
		return own.matters()
	default:
		return false
	}
}

// used reports whether the bucket of l is not full.
func used(l *rate.Limiter) bool { return l.Tokens() < float64(l.Burst()) }
