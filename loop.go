package redo

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/redo-go/redo/internal/chance"
	"github.com/redo-go/redo/internal/decision"
	"github.com/redo-go/redo/internal/exchange"
	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

// A loop is one run of go-retryablehttp's loop over the attempts of a call. The library sends, waits and sends again.
// An attemptTransport makes each attempt, and checkRetry decides whether another follows. One goroutine runs it.
type loop struct {
	call        *call
	client      retryablehttp.Client
	connections exchange.Connections
	queued      time.Duration // spent reading the body, and waiting for store and limiter: no part of the total
	last        result
	decision    decision.Decision
	due         time.Time // when the wait after the last attempt ends
	attempts    []Attempt
	one         [1]Attempt // room for attempts: most calls make one
	known       decision.Knowledge
	owes        bool // the last attempt was paid from the retry budget
	fromStore   bool // the response that carries this loop comes from the store
}

// noHeader is the header of the request that the loop sends. It is never written.
var noHeader = http.Header{}

type loopKey struct{}

// loopOf returns the loop that ctx carries, nil if there is none.
func loopOf(ctx context.Context) *loop {
	l, _ := ctx.Value(loopKey{}).(*loop)
	return l
}

// send makes the attempts of a call and returns their outcome.
func (k *call) send() outcome {
	c := k.client
	l := &loop{call: k, known: decision.Knowledge{Prior: k.prior, Unknown: k.unknown}, queued: time.Since(k.start)}
	l.attempts = l.one[:0]
	l.client = retryablehttp.Client{
		HTTPClient: c.http, CheckRetry: checkRetry, Backoff: backoff, ErrorHandler: retryablehttp.PassthroughErrorHandler,
		RetryMax: k.policy.MaxAttempts, // never reached: decide stops one attempt earlier
	}
	c.buckets.Deposit(k.destination())
	// Each attempt copies the caller's request. The library and http.Client see only this one, so it has no header
	// or host for them to copy. It also has no RequestURI, which a server's request that is passed on has.
	r := k.req.WithContext(l.connections.Watch(context.WithValue(k.ctx, loopKey{}, l), c.traced))
	r.Header, r.Host, r.RequestURI = noHeader, "", ""
	_, _ = l.client.Do(&retryablehttp.Request{Request: r}) //nolint:bodyclose // the last result holds the response
	l.settleBudget()
	if caller := exchange.Ended(k.req); caller != nil && l.decision.Retry {
		// The context ended while the library slept. It then returns the bare error, and calls no ErrorHandler.
		v := taxonomy.Classify(taxonomy.Answer{Caller: caller, Sent: l.known.Unknown})
		l.decision = decision.Decision{Again: true, Wait: time.Until(l.due)}
		l.last = result{verdict: v, err: exchange.WithReason(k.req, caller, l.last.err)}
	}
	return l.outcome()
}

// An attemptTransport is the transport of the http.Client under the loop. It has no CloseIdleConnections on purpose:
// the library calls that method on every failure, which would empty the pool that all calls share.
type attemptTransport struct{}

func (attemptTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	l := loopOf(r.Context())
	l.last = l.attempt(r.Context(), time.Now())
	l.queued += l.last.queued
	switch resp := l.last.resp; {
	case resp == nil:
		return nil, l.last.err
	case resp.StatusCode/100 == 3:
		// http.Client parses the Location of a redirect that CheckRedirect leaves alone, and closes the response if it
		// is malformed. The response is the caller's, so the library gets another one.
		return &http.Response{StatusCode: resp.StatusCode, Body: resp.Body, Request: r}, nil
	default:
		return resp, nil
	}
}

// checkRetry adds the last result to the knowledge of the effect, and decides whether another attempt follows.
func checkRetry(ctx context.Context, _ *http.Response, _ error) (bool, error) {
	l := loopOf(ctx)
	k, res := l.call, &l.last
	l.known = l.known.Fold(res.verdict, res.resent)
	l.settleBudget()
	l.decision = decision.Decision{}
	if res.verdict.Class != taxonomy.ClassSuccess {
		l.decision = l.decide()
	}
	a := res.attempt(l.number())
	if l.decision.Retry {
		a.Wait = l.decision.Wait
		k.logRetry(a)
	}
	if o, ok := k.client.observer.(AttemptObserver); ok {
		o.EndAttempt(res.ctx, AttemptEnd{Operation: k.op.name, Key: k.op.key, Attempt: a, Class: res.verdict.Class})
	}
	l.attempts = append(l.attempts, a)
	l.client.RetryWaitMin, l.due = l.decision.Wait, time.Now().Add(l.decision.Wait)
	return l.decision.Retry, nil
}

// backoff returns the wait that checkRetry chose.
func backoff(wait, _ time.Duration, _ int, _ *http.Response) time.Duration { return wait }

// decide applies the retry rule, and then the retry budget, which has a state.
func (l *loop) decide() decision.Decision {
	k, res, now := l.call, &l.last, time.Now()
	e := decision.Evidence{
		Verdict: res.verdict, Method: k.req.Method, Keyed: k.keyed(), Sent: res.sent, Body: k.body.CheckReplayable(),
		Last: l.number() >= k.policy.MaxAttempts, Left: min(l.total(now), k.usable()),
	}
	if deadline, ok := k.ctx.Deadline(); ok {
		e.Left = min(e.Left, deadline.Sub(now))
	}
	if res.verdict.Retry() {
		e.Schedule = k.policy.Jitter(len(l.attempts), l.client.RetryWaitMin, k.policy, chance.Float64())
		if res.resp != nil {
			e.Hint, _ = wire.Hint(res.resp.Header, now, res.verdict.Code.In(taxonomy.RateLimit))
		}
	}
	d := decision.Decide(e)
	if res.local {
		d.Retry, d.Why = false, res.err
	}
	if l.owes = d.Retry && k.client.buckets.Withdraw(k.destination()); d.Retry && !l.owes {
		d.Retry, d.Why = false, ErrBudget
	}
	return d
}

// number returns the number of the attempt under way. checkRetry ends it.
func (l *loop) number() int { return len(l.attempts) + 1 }

// total returns the rest of MaxElapsed.
func (l *loop) total(now time.Time) time.Duration {
	return l.call.policy.MaxElapsed - now.Sub(l.call.start) + l.queued
}

// settleBudget gives back the token of a retry that did not end in another transient failure at the server.
func (l *loop) settleBudget() {
	if l.owes &&
		(l.last.local || l.last.verdict.Class != taxonomy.ClassTransient || l.call.ctx.Err() != nil) {
		l.call.client.buckets.Refund(l.call.destination())
	}
	l.owes = false
}

// outcome returns the call's outcome after the last attempt.
func (l *loop) outcome() outcome {
	k, res := l.call, &l.last
	out := outcome{
		Received: res.Received, resp: res.resp, streams: res.streams,
		verdict: res.verdict, attempts: l.attempts, effect: l.known.Effect(res.verdict),
	}
	redirect := res.resp != nil && res.resp.StatusCode/100 == 3 && res.err == nil && k.mode != modeCall
	if res.verdict.Class == taxonomy.ClassSuccess && res.resp != nil && res.resp.StatusCode < 400 || redirect {
		return out
	}
	young := k.op.stored || out.effect == NotApplied || l.decision.Wait < k.usable()
	e := &Error{
		Code: res.verdict.Code, Operation: k.op.name, Key: k.op.key, Attempts: l.attempts, Effect: out.effect, Err: res.err,
		head: res.Head, cut: res.Cut, whole: res.err == nil, said: res.verdict.Said,
		sameKey: k.op.stored || k.op.lasting || wire.IdempotentMethod(k.req.Method),
		retry:   young && (l.decision.Again || res.verdict.Code.In(taxonomy.Caller)),
	}
	if why := l.decision.Why; why != nil && !errors.Is(res.err, why) {
		e.Err = errors.Join(why, res.err)
	}
	if res.resp != nil {
		e.StatusCode, e.Response = res.resp.StatusCode, res.resp
	}
	if l.decision.Again && l.decision.Wait > 0 {
		e.RetryAt = time.Now().Add(l.decision.Wait)
	}
	out.err = e
	return out
}

// failed returns an error for the response resp, which the loop returned without one.
func (l *loop) failed(code taxonomy.Code, effect Effect, resp *http.Response, err error) *Error {
	e := l.call.failed(code, effect, resp, err)
	e.Attempts = l.attempts
	return e
}

// KeyOf returns the Idempotency-Key that was sent with the request of resp. It returns "" if resp is nil or no key
// was sent.
func KeyOf(resp *http.Response) string {
	if l := loopOfResponse(resp); l != nil {
		return l.call.op.key
	}
	return ""
}

// Replayed reports whether resp repeats an earlier response: the server marked it as a replay, or it came from the
// client's own store. It returns false for nil.
func Replayed(resp *http.Response) bool {
	if resp == nil {
		return false
	}
	l := loopOfResponse(resp)
	if l == nil {
		return taxonomy.Replayed(resp.Header)
	}
	return l.fromStore || taxonomy.ReplayedBy(resp.Header, l.call.client.profile.ReplayMarkers)
}

// loopOfResponse returns the loop that made resp. It returns nil for nil, and for a response of another client.
func loopOfResponse(resp *http.Response) *loop {
	if resp == nil || resp.Request == nil {
		return nil
	}
	return loopOf(resp.Request.Context())
}
