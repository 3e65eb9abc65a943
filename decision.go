package redo

import (
	"time"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

// An evidence value holds all inputs of the decision about another attempt.
type evidence struct {
	verdict    taxonomy.Verdict
	policy     RetryPolicy
	method     string
	keyed      bool          // the attempt carried a key
	sent       bool          // the request was, or may have been, written
	replayable bool          // the body, if any, can be sent again
	attempt    int           // attempts made so far, from 1
	prev       time.Duration // the wait before this attempt
	hint       time.Duration // the server's hint
	hinted     bool
	left       time.Duration // the rest of the caller's deadline, of MaxElapsed, and of the key's retention
	random     float64
}

// A decision holds whether another attempt follows, and when.
type decision struct {
	retry bool
	again bool          // another attempt makes sense: now if retry is true, else in a later call
	wait  time.Duration // before the next attempt
	why   error         // why a transient failure is not retried
}

// decide is the retry rule. It is a pure function, so the caller applies the retry budget, which has a state.
func decide(s evidence) decision {
	if !s.verdict.Retry() {
		return decision{}
	}
	// The server's hint is never shortened. The schedule is its lower bound, so that Retry-After: 0 causes no hot loop.
	d := decision{wait: s.policy.Jitter(s.attempt-1, s.prev, s.policy, s.random), again: true}
	if s.hinted {
		d.wait = max(d.wait, s.hint)
	}
	switch {
	case !s.keyed && s.sent && !wire.IdempotentMethod(s.method):
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
