package redo

import (
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/redo-go/redo/taxonomy"
)

// A RetryPolicy bounds the attempts of one call. Zero fields take their default; [WithRetry] refuses negative
// and contradictory values.
type RetryPolicy struct {
	// MaxAttempts is how many attempts are made at most, the first included. Default 5; 1 never retries.
	MaxAttempts int
	// BaseDelay scales the waits: the n-th wait, from 0, is drawn from BaseDelay·2ⁿ. Default 100 ms, or MaxDelay when that is shorter.
	BaseDelay time.Duration
	// MaxDelay caps a wait that the server did not ask for. Default 2 s.
	MaxDelay time.Duration
	// MaxElapsed bounds the whole call, attempts and waits. Default 10 s. The caller's own deadline counts when
	// it is earlier.
	MaxElapsed time.Duration
	// AttemptTimeout bounds one attempt up to its verdict: the head of the response and, where the client reads
	// it itself, the body. It does not cut off a body that is being read by the caller. Default: what is left of
	// MaxElapsed.
	AttemptTimeout time.Duration
	// Jitter draws the wait. Default [FullJitter].
	Jitter Jitter
}

// A Jitter draws the wait after the n-th failed attempt, n counting from 0. prev is the wait before, zero for
// the first; random is uniform in [0, 1). It is a pure function of its arguments.
type Jitter func(n int, prev time.Duration, p RetryPolicy, random float64) time.Duration

// FullJitter waits random in [0, min(MaxDelay, BaseDelay·2ⁿ]): the least load on a server that many clients
// come back to at once.
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

// NoDelay retries at once.
func NoDelay(int, time.Duration, RetryPolicy, float64) time.Duration { return 0 }

// step is min(MaxDelay, BaseDelay·2ⁿ) without overflow.
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
	if p.MaxAttempts == 0 {
		p.MaxAttempts = 5
	}
	if p.BaseDelay == 0 {
		p.BaseDelay = 100 * time.Millisecond
		if p.MaxDelay > 0 {
			p.BaseDelay = min(p.BaseDelay, p.MaxDelay)
		}
	}
	if p.MaxDelay == 0 {
		p.MaxDelay = max(2*time.Second, p.BaseDelay)
	}
	if p.MaxElapsed == 0 {
		p.MaxElapsed = max(10*time.Second, p.AttemptTimeout)
	}
	if p.AttemptTimeout == 0 {
		p.AttemptTimeout = p.MaxElapsed
	}
	if p.Jitter == nil {
		p.Jitter = FullJitter
	}
	return p
}

// validate judges the policy as the caller gave it.
func (p RetryPolicy) validate() error {
	for _, f := range []struct {
		name string
		d    time.Duration
	}{{"BaseDelay", p.BaseDelay}, {"MaxDelay", p.MaxDelay}, {"MaxElapsed", p.MaxElapsed}, {"AttemptTimeout", p.AttemptTimeout}} {
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
	case d.AttemptTimeout > d.MaxElapsed:
		return fmt.Errorf("redo: retry policy: AttemptTimeout %v is longer than MaxElapsed %v", d.AttemptTimeout, d.MaxElapsed)
	}
	return nil
}

// A situation is all that the decision about another attempt depends on.
type situation struct {
	verdict    taxonomy.Verdict
	policy     RetryPolicy
	method     string
	keyed      bool          // the attempt carried a key
	sent       bool          // the attempt's head was, or may have been, written
	replayable bool          // the body, if any, can be sent again
	attempt    int           // attempts made so far, from 1
	prev       time.Duration // the wait before this attempt
	hint       time.Duration // the server's hint
	hinted     bool
	left       time.Duration // what is left of the caller's deadline and of MaxElapsed
	random     float64
}

// A decision is what to do after an attempt.
type decision struct {
	retry bool
	again bool          // another attempt makes sense: now when retry is true, in a later call otherwise
	wait  time.Duration // before the next attempt; also when it is not made, if another attempt makes sense at all
	why   error         // why a transient failure is not retried
}

// decide is the whole retry rule, save for the budget, which has a state.
func decide(s situation) decision {
	if !s.verdict.Retry() {
		return decision{}
	}
	d := decision{wait: s.hint, again: true}
	if !s.hinted {
		d.wait = s.policy.Jitter(s.attempt-1, s.prev, s.policy, s.random)
	}
	switch {
	case !s.keyed && s.sent && !idempotentMethod(s.method):
		return decision{why: ErrKeyless}
	case !s.replayable:
		d.why = ErrNotReplayable
	case s.attempt >= s.policy.MaxAttempts:
		d.why = ErrAttempts
	case d.wait >= s.left:
		d.why = ErrTooLate
	default:
		d.retry = true
	}
	return d
}

// idempotentMethod reports whether the method is idempotent by definition (RFC 9110 §9.2.2).
func idempotentMethod(m string) bool {
	return safeMethod(m) || m == http.MethodPut || m == http.MethodDelete
}
