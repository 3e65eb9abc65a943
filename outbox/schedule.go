package outbox

import (
	"errors"
	"fmt"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/taxonomy"
)

// Schedule is the relay's default: up to 24 attempts within three days, with waits drawn from 10 s·2ⁿ, at most 12 hours.
func Schedule() redo.RetryPolicy {
	return redo.RetryPolicy{
		MaxAttempts:    24,
		BaseDelay:      10 * time.Second,
		MaxDelay:       12 * time.Hour,
		MaxElapsed:     72 * time.Hour,
		AttemptTimeout: 30 * time.Second,
		Jitter:         redo.FullJitter,
	}
}

// complete fills the policy's zero fields from the default schedule, or says what is wrong with it.
func complete(p redo.RetryPolicy) (redo.RetryPolicy, error) {
	for _, f := range []struct {
		name string
		d    *time.Duration
		def  time.Duration
	}{
		{"BaseDelay", &p.BaseDelay, Schedule().BaseDelay},
		{"MaxDelay", &p.MaxDelay, max(Schedule().MaxDelay, p.BaseDelay)},
		{"MaxElapsed", &p.MaxElapsed, Schedule().MaxElapsed},
		{"AttemptTimeout", &p.AttemptTimeout, Schedule().AttemptTimeout},
	} {
		if *f.d < 0 || *f.d > maxWait {
			return p, fmt.Errorf("outbox: option Retry: %s is %v, it must be from 0 to %v", f.name, *f.d, maxWait)
		}
		if *f.d == 0 {
			*f.d = f.def
		}
	}
	if p.MaxAttempts < 0 {
		return p, fmt.Errorf("outbox: option Retry: MaxAttempts is %d, it must not be negative", p.MaxAttempts)
	}
	if p.MaxAttempts == 0 {
		p.MaxAttempts = Schedule().MaxAttempts
	}
	if p.BaseDelay > p.MaxDelay {
		return p, fmt.Errorf("outbox: option Retry: BaseDelay %v is longer than MaxDelay %v", p.BaseDelay, p.MaxDelay)
	}
	if p.Jitter == nil {
		p.Jitter = redo.FullJitter
	}
	return p, nil
}

// unfinished is the failure of an event whose last allowed attempt ended without a word: its relay has died.
var unfinished = Failure{Code: taxonomy.OutcomeUnknown, Reason: "outbox: the last attempt did not end: its relay has died, or lost its lease"}

// overdue is the failure of an event whose next attempt comes after the schedule's end, because no relay ran until then: an
// earlier one may have reached a consumer that has forgotten the id since.
var overdue = Failure{Code: taxonomy.OutcomeUnknown, Reason: "outbox: the schedule ended before the next attempt: no relay took it in time"}

// attempted is all that the decision after an attempt depends on.
type attempted struct {
	policy redo.RetryPolicy
	number int           // of the attempt, from 1
	tried  time.Duration // since the first attempt began
	hint   time.Duration // not before: the server's, or the client's own; zero: none
	random float64       // in [0, 1)
	err    error         // the publisher's
}

// decide is the whole rule of what becomes of an event.
func decide(a attempted) Outcome {
	f, sent := judge(a.err)
	if sent {
		return Outcome{Result: Sent}
	}
	o := Outcome{Result: Dead, Failure: Failure{Code: f.code, Reason: reason(a.err)}}
	if f.terminal || a.number >= a.policy.MaxAttempts {
		return o
	}
	// What was waited before is not known to the relay that makes this attempt: a decorrelated jitter starts anew.
	wait := max(a.policy.Jitter(a.number-1, 0, a.policy, a.random), a.hint, 0)
	if wait > a.policy.MaxElapsed-a.tried {
		return o
	}
	o.Result, o.Wait = Waiting, wait
	return o
}

// hintOf is how long the server, or the client, asks to wait.
func hintOf(err error, now time.Time) time.Duration {
	if e, ok := errors.AsType[*redo.Error](err); ok && !e.RetryAt.IsZero() {
		return max(0, e.RetryAt.Sub(now))
	}
	return 0
}
