package limit

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// Breaker stops the attempts to a destination that keeps failing. The client calls Allow before each attempt. If
// Allow returns an error, the attempt is not made. Otherwise the client calls done once, when the attempt has ended.
// Allow and done must be safe for concurrent use. The two-step breaker of sony/gobreaker fits with a few lines.
type Breaker interface {
	Allow(destination string) (done func(Health), err error)
}

// Health is the evidence that an attempt gives about its destination. The zero Health is Neutral.
type Health uint8

const (
	// Neutral means no evidence: the caller cancelled the attempt, or it failed before it reached the destination.
	Neutral Health = iota
	// Healthy means that the destination responded: a success, or a refusal that the request itself caused.
	Healthy
	// Unhealthy means a transient failure.
	Unhealthy
)

// BreakerPolicy configures [NewBreaker]. Zero fields take their default.
type BreakerPolicy struct {
	// Failures is the number of unhealthy attempts in a row that opens the circuit of a destination. Default 10.
	Failures int
	// Cooldown is the time for which an open circuit refuses every attempt. After that, one attempt is let through
	// as a probe. While a probe hangs, another one follows after each further cooldown. Default 5 s.
	Cooldown time.Duration
}

// NewBreaker returns a breaker with one circuit per destination. A circuit opens after p.Failures unhealthy attempts
// in a row, and Allow then returns [ErrBreakerOpen]. It closes when a probe is healthy, and stays open for another
// cooldown when the probe is unhealthy. NewBreaker returns an error if a field of p is negative.
func NewBreaker(p BreakerPolicy) (Breaker, error) {
	switch {
	case p.Failures < 0:
		return nil, fmt.Errorf("limit: breaker: Failures is %d, it must not be negative", p.Failures)
	case p.Cooldown < 0:
		return nil, fmt.Errorf("limit: breaker: Cooldown is %v, it must not be negative", p.Cooldown)
	}
	if p.Failures == 0 {
		p.Failures = 10
	}
	if p.Cooldown == 0 {
		p.Cooldown = 5 * time.Second
	}
	return &breaker{policy: p, circuits: newTable[string]((*circuit).open)}, nil
}

// Allow asks b whether an attempt may be made. The error of a refusal matches [ErrBreakerOpen] and the error of b.
func Allow(b Breaker, d Destination) (done func(Health), err error) {
	done, err = b.Allow(d.String())
	if err != nil && !errors.Is(err, ErrBreakerOpen) {
		err = errors.Join(ErrBreakerOpen, err)
	}
	return done, err
}

type breaker struct {
	policy   BreakerPolicy
	mu       sync.Mutex
	circuits table[string, *circuit] // a missing circuit is closed and has no failures
}

type circuit struct {
	failures int       // in a row
	openedAt time.Time // zero: closed
	probed   time.Time // the start of the probe under way; zero: none
}

func (c *circuit) open() bool { return !c.openedAt.IsZero() }

func (b *breaker) Allow(destination string) (func(Health), error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var probed *circuit
	if c := b.circuits.get(destination); c != nil && c.open() {
		// A probe without a time limit may never end, and must not keep the circuit open.
		if time.Since(c.openedAt) < b.policy.Cooldown || time.Since(c.probed) < b.policy.Cooldown {
			return nil, ErrBreakerOpen
		}
		c.probed, probed = time.Now(), c
	}
	return func(h Health) { b.done(destination, h, probed) }, nil
}

// done records the health of an attempt. probed is the circuit that the attempt probes, nil if it is not a probe.
func (b *breaker) done(destination string, h Health, probed *circuit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.circuits.get(destination)
	// If the circuit was dropped during its probe, the current circuit is another one, and may have its own probe.
	probe := c != nil && c == probed
	if probe {
		c.probed = time.Time{}
	}
	switch h {
	case Healthy:
		// An attempt that was sent before the circuit opened doesn't show that the destination has recovered.
		if c != nil && (!c.open() || probe) {
			b.circuits.remove(destination)
		}
	case Unhealthy:
		if c == nil {
			c = &circuit{}
			b.circuits.add(destination, c)
			probe = probed != nil
		}
		if c.failures++; probe || (!c.open() && c.failures >= b.policy.Failures) {
			c.openedAt = time.Now()
		}
	}
}
