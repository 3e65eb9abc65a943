package decision

import (
	"errors"

	"github.com/redo-go/redo/internal/exchange"
	"github.com/redo-go/redo/limit"
	"github.com/redo-go/redo/taxonomy"
)

// Health returns the evidence that an attempt gives about its destination. responded is true if there was a response.
func Health(v taxonomy.Verdict, responded bool) limit.Health {
	switch {
	case v.Code.In(taxonomy.Caller):
		return limit.Neutral
	case v.Class == taxonomy.ClassTransient && !v.Code.In(taxonomy.Conflict):
		return limit.Unhealthy
	case !responded:
		return limit.Neutral // no evidence: no credentials, an unknown host, an untrusted certificate
	}
	return limit.Healthy
}

// Refusal returns the verdict on an attempt that this client refused itself. It returns false for any other attempt.
func Refusal(err error) (taxonomy.Verdict, bool) {
	v := taxonomy.Verdict{Class: taxonomy.ClassTransient, Effect: taxonomy.NotApplied}
	switch {
	case err == nil:
		return v, false
	case errors.Is(err, limit.ErrBreakerOpen), errors.Is(err, ErrTooLate):
		v.Code = taxonomy.Unavailable
	case errors.Is(err, limit.ErrLimited):
		v.Code = taxonomy.RateLimited
	default:
		refused, ok := errors.AsType[*exchange.Refused](err)
		if !ok {
			return v, false
		}
		v.Code, v.Class, v.Effect = refused.Code, taxonomy.ClassTerminal, refused.Effect
	}
	return v, true
}
