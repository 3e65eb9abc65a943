// Package decision decides two things after an attempt: whether another one follows, and which effect is known.
// Both are pure functions of the evidence.
package decision

import (
	"errors"
	"time"

	"github.com/redo-go/redo/internal/exchange"
	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

// Reasons why a transient failure is not retried.
var (
	ErrKeyless       = errors.New("redo: not retried: a request without a key was sent")
	ErrNotReplayable = exchange.ErrNotReplayable
	ErrAttempts      = errors.New("redo: all attempts are used up")
	ErrTooLate       = errors.New(
		"redo: not retried: the wait would pass the deadline, MaxElapsed, or the key's retention",
	)
)

// Evidence holds all inputs of the decision about another attempt.
type Evidence struct {
	Verdict  taxonomy.Verdict
	Method   string
	Keyed    bool          // the attempt carried a key
	Sent     bool          // the request was, or may have been, written
	Body     error         // why the body can't be sent again; nil if it can, or there is none
	Last     bool          // the policy allows no other attempt
	Schedule time.Duration // the wait of the policy
	Hint     time.Duration // the wait in the server's hint; zero if there is none
	Left     time.Duration // the rest of the caller's deadline, of MaxElapsed, and of the key's retention
}

// A Decision holds whether another attempt follows, and when.
type Decision struct {
	Retry bool
	Again bool          // another attempt makes sense: now if Retry is true, else in a later call
	Wait  time.Duration // before the next attempt
	Why   error         // why a transient failure is not retried
}

// Decide is the retry rule. The caller applies the retry budget, which has a state.
func Decide(e Evidence) Decision {
	if !e.Verdict.Retry() {
		return Decision{}
	}
	// The server's hint is never shortened. The schedule is its lower bound, so that Retry-After: 0 causes no hot loop.
	d := Decision{Wait: max(e.Schedule, e.Hint), Again: true}
	switch {
	case !e.Keyed && e.Sent && !wire.IdempotentMethod(e.Method):
		if e.Verdict.Effect != taxonomy.NotApplied {
			return Decision{Why: ErrKeyless}
		}
		d.Why = ErrKeyless
	case e.Body != nil:
		d.Why = e.Body
	case e.Last:
		d.Why = ErrAttempts
	case d.Wait >= e.Left:
		d.Why = ErrTooLate
	default:
		d.Retry = true
	}
	return d
}
