package redo

import (
	"fmt"
	"sync"
	"time"
)

// A Breaker stops attempts to a destination that keeps failing. Allow is called before each attempt; an error
// means that it is not to be made. Otherwise done must be called once with how it ended. Both must be safe for
// concurrent use. sony/gobreaker's two-step breaker fits with a few lines around it.
type Breaker interface {
	Allow(destination string) (done func(AttemptHealth), err error)
}

// AttemptHealth is what an attempt says about the health of its destination.
type AttemptHealth uint8

const (
	// Neutral: the attempt says nothing: the caller cancelled it, or it ended before the destination could answer
	// for a reason that is not the destination's.
	Neutral AttemptHealth = iota
	// Healthy: the destination answered: a success, or a refusal that is the request's own fault.
	Healthy
	// Unhealthy: a transient failure.
	Unhealthy
)

// BreakerPolicy is what [NewBreaker] takes; zero fields take their default.
type BreakerPolicy struct {
	// Failures is how many unhealthy attempts in a row open the breaker. Default 10.
	Failures int
	// Cooldown is how long it stays open before one attempt is let through as a probe. Default 5 s.
	Cooldown time.Duration
}

// NewBreaker returns a breaker that opens after so many failures in a row and closes again when a probe
// succeeds, for each destination by itself.
func NewBreaker(p BreakerPolicy) (Breaker, error) {
	switch {
	case p.Failures < 0:
		return nil, fmt.Errorf("redo: breaker: Failures is %d, it must not be negative", p.Failures)
	case p.Cooldown < 0:
		return nil, fmt.Errorf("redo: breaker: Cooldown is %v, it must not be negative", p.Cooldown)
	}
	if p.Failures == 0 {
		p.Failures = 10
	}
	if p.Cooldown == 0 {
		p.Cooldown = 5 * time.Second
	}
	return &breaker{policy: p, circuits: map[string]*circuit{}}, nil
}

type breaker struct {
	policy   BreakerPolicy
	mu       sync.Mutex
	circuits map[string]*circuit // a missing one is closed
}

type circuit struct {
	failures int
	openedAt time.Time // zero: closed
	probing  bool
}

func (b *breaker) Allow(destination string) (func(AttemptHealth), error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, probe := b.circuits[destination], false
	if c != nil && !c.openedAt.IsZero() {
		if c.probing || time.Since(c.openedAt) < b.policy.Cooldown {
			return nil, ErrBreakerOpen
		}
		c.probing, probe = true, true
	}
	return func(h AttemptHealth) { b.done(destination, h, probe) }, nil
}

func (b *breaker) done(destination string, h AttemptHealth, probe bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.circuits[destination]
	if c != nil && probe {
		c.probing = false
	}
	switch h {
	case Healthy:
		// A straggler that was sent before the breaker opened says nothing about now.
		if c != nil && (c.openedAt.IsZero() || probe) {
			delete(b.circuits, destination)
		}
	case Unhealthy:
		if c == nil {
			c = &circuit{}
			b.circuits[destination] = c
		}
		if c.failures++; probe || (c.openedAt.IsZero() && c.failures >= b.policy.Failures) {
			c.openedAt = time.Now()
		}
	}
}
