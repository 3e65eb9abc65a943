package decision

import (
	"errors"
	"net/http"
	"time"

	"github.com/redo-go/redo/internal/exchange"
	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/limit"
	"github.com/redo-go/redo/taxonomy"
)

// Health returns the evidence that an attempt gives about its destination. responded is true if there was a response,
// local if this client refused the attempt itself.
func Health(v taxonomy.Verdict, responded, local bool) limit.Health {
	switch {
	case v.Code.In(taxonomy.Caller), local && !responded:
		return limit.Neutral
	case v.Class == taxonomy.ClassTransient && !v.Code.In(taxonomy.Conflict):
		return limit.Unhealthy
	case !responded:
		return limit.Neutral // no evidence: no credentials, an unknown host, an untrusted certificate
	}
	return limit.Healthy
}

// Response returns the facts about the server's limits in resp, which is nil if there was no response.
func Response(v taxonomy.Verdict, resp *http.Response, now time.Time) limit.Response {
	if resp == nil {
		return limit.Response{None: true}
	}
	r := limit.Response{Failed: Health(v, true, false) == limit.Unhealthy, Limited: v.Code.In(taxonomy.RateLimit)}
	r.Remaining, r.Reset, r.Quota = wire.Quota(resp.Header, now, r.Limited)
	return r
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
