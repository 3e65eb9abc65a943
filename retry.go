package redo

import (
	"cmp"
	"fmt"
	"math"
	"time"
)

// A RetryPolicy bounds the attempts of one call. Zero fields take their default; [WithRetry] refuses negative
// and contradictory values.
type RetryPolicy struct {
	// MaxAttempts is the maximum number of attempts, including the first. Default 5; 1 never retries.
	MaxAttempts int
	// BaseDelay scales the waits: the n-th wait, from 0, is drawn from BaseDelay·2ⁿ. Default 100 ms,
	// or MaxDelay or MaxElapsed if that is shorter.
	BaseDelay time.Duration
	// MaxDelay caps the schedule's own waits. A server's hint may be longer. Default 2 s, or BaseDelay if that is longer.
	MaxDelay time.Duration
	// MaxElapsed bounds the attempts and the waits between them. Default 10 s, or AttemptTimeout if that is longer. An
	// earlier deadline of the caller counts instead. Waiting for the store or for a limiter does not count. Under
	// [Client.Transport] no attempt is cut, and MaxElapsed bounds when another attempt may start.
	MaxElapsed time.Duration
	// AttemptTimeout bounds one attempt: the head of the response and the part of the body that the client reads. It
	// does not cut off a body that the caller reads. Default: the rest of MaxElapsed. [Client.Transport] ignores it.
	AttemptTimeout time.Duration
	// Jitter draws the wait. Default [FullJitter].
	Jitter Jitter
}

// A Jitter returns the wait after the n-th failed attempt. n counts from 0. prev is the previous wait, zero for the
// first. random is uniform in [0, 1). A Jitter is a pure function of its arguments.
type Jitter func(n int, prev time.Duration, p RetryPolicy, random float64) time.Duration

// FullJitter waits random in [0, min(MaxDelay, BaseDelay·2ⁿ)). It puts the least load on a server that many clients
// retry at the same time.
func FullJitter(n int, _ time.Duration, p RetryPolicy, random float64) time.Duration {
	return scale(random, p.step(n))
}

// EqualJitter waits BaseDelay·2ⁿ plus random in [0, BaseDelay·2ⁿ], capped: 100–200, 200–400, 400–800 ms for a
// base of 100 ms.
func EqualJitter(n int, _ time.Duration, p RetryPolicy, random float64) time.Duration {
	step := p.step(n)
	if extra := scale(random, step); extra < p.MaxDelay-step { // the sum may overflow
		return step + extra
	}
	return p.MaxDelay
}

// DecorrelatedJitter waits random in [BaseDelay, 3·prev], capped.
func DecorrelatedJitter(_ int, prev time.Duration, p RetryPolicy, random float64) time.Duration {
	high := p.MaxDelay
	if prev = max(prev, p.BaseDelay); prev <= p.MaxDelay/3 {
		high = 3 * prev
	}
	return min(p.MaxDelay, p.BaseDelay+scale(random, max(0, high-p.BaseDelay)))
}

// ConstantDelay always waits BaseDelay, capped.
func ConstantDelay(_ int, _ time.Duration, p RetryPolicy, _ float64) time.Duration {
	return min(p.MaxDelay, p.BaseDelay)
}

// NoDelay retries without a wait.
func NoDelay(int, time.Duration, RetryPolicy, float64) time.Duration { return 0 }

// step returns min(MaxDelay, BaseDelay·2ⁿ) without overflow.
func (p RetryPolicy) step(n int) time.Duration {
	if n = max(n, 0); n >= 62 || p.BaseDelay > p.MaxDelay>>n {
		return p.MaxDelay
	}
	return p.BaseDelay << n
}

func scale(random float64, d time.Duration) time.Duration {
	return time.Duration(random * float64(d))
}

// withDefaults fills the zero fields.
func (p RetryPolicy) withDefaults() RetryPolicy {
	const usual = 100 * time.Millisecond
	p.MaxAttempts = cmp.Or(p.MaxAttempts, 5)
	p.BaseDelay = cmp.Or(p.BaseDelay, min(usual, cmp.Or(p.MaxDelay, usual), cmp.Or(p.MaxElapsed, usual)))
	p.MaxDelay = cmp.Or(p.MaxDelay, max(2*time.Second, p.BaseDelay))
	p.MaxElapsed = cmp.Or(p.MaxElapsed, max(10*time.Second, p.AttemptTimeout))
	p.AttemptTimeout = cmp.Or(p.AttemptTimeout, p.MaxElapsed)
	if p.Jitter == nil {
		p.Jitter = FullJitter
	}
	return p
}

// validate refuses negative and contradictory values.
func (p RetryPolicy) validate() error {
	for _, f := range []struct {
		name string
		d    time.Duration
	}{
		{"BaseDelay", p.BaseDelay}, {"MaxDelay", p.MaxDelay}, {"MaxElapsed", p.MaxElapsed},
		{"AttemptTimeout", p.AttemptTimeout},
	} {
		if f.d < 0 {
			return fmt.Errorf("redo: retry policy: %s is %v, it must not be negative", f.name, f.d)
		}
	}
	switch d := p.withDefaults(); {
	case p.MaxAttempts < 0:
		return fmt.Errorf("redo: retry policy: MaxAttempts is %d, it must not be negative", p.MaxAttempts)
	case p.MaxAttempts > math.MaxInt32:
		return fmt.Errorf("redo: retry policy: MaxAttempts is %d, at most %d are possible", p.MaxAttempts, math.MaxInt32)
	case d.BaseDelay > d.MaxDelay:
		return fmt.Errorf("redo: retry policy: BaseDelay %v is longer than MaxDelay %v", d.BaseDelay, d.MaxDelay)
	case d.BaseDelay > d.MaxElapsed:
		return fmt.Errorf("redo: retry policy: BaseDelay %v is longer than MaxElapsed %v", d.BaseDelay, d.MaxElapsed)
	case d.AttemptTimeout > d.MaxElapsed:
		return fmt.Errorf("redo: retry policy: AttemptTimeout %v is longer than MaxElapsed %v",
			d.AttemptTimeout, d.MaxElapsed)
	}
	return nil
}
