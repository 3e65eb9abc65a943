package redo

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

// A loop is one run of go-retryablehttp's loop over the attempts of a call. The library sends, waits and sends again.
// An attemptTransport makes each attempt, and checkRetry decides whether another follows. One goroutine runs it.
type loop struct {
	call      *call
	client    retryablehttp.Client
	start     time.Time
	queued    time.Duration // spent waiting for the limiter: no part of the total
	made      int
	waited    time.Duration // before the last attempt
	last      result
	known     knowledge
	decision  decision
	owes      bool // the last attempt was paid from the retry budget
	attempts  []Attempt
	fromStore bool // the response that carries this loop comes from the store
}

type loopKey struct{}

// loopOf returns the loop that ctx carries, nil if there is none.
func loopOf(ctx context.Context) *loop {
	l, _ := ctx.Value(loopKey{}).(*loop)
	return l
}

// send makes the attempts of a call and returns their outcome.
func (k *call) send() outcome {
	c := k.client
	l := &loop{call: k, start: k.start, known: knowledge{prior: k.prior, unknown: k.unknown}}
	if k.op.stored {
		l.start = time.Now() // waiting for the store does not count
	}
	l.client = retryablehttp.Client{
		HTTPClient: c.http, CheckRetry: checkRetry, Backoff: backoff, ErrorHandler: retryablehttp.PassthroughErrorHandler,
		RetryMax: k.policy.MaxAttempts, // never reached: decide stops one attempt earlier
	}
	c.buckets.Deposit(k.destination())
	r := k.req.WithContext(context.WithValue(k.ctx, loopKey{}, l))
	r.RequestURI = ""                                      // set in a server's request that is passed on
	_, _ = l.client.Do(&retryablehttp.Request{Request: r}) //nolint:bodyclose // the loop's last result holds the response
	l.settleBudget()
	if caller := k.ended(); caller != nil && l.decision.retry {
		// The context ended while the library slept. It then returns the bare error, and calls no ErrorHandler.
		v := taxonomy.Classify(taxonomy.Answer{Caller: caller, Sent: l.known.unknown})
		l.decision, l.last.verdict, l.last.err = decision{}, v, k.withReason(caller, l.last.err)
		l.last.resp = nil
	}
	return l.outcome()
}

// An attemptTransport is the transport of the http.Client under the loop. It has no CloseIdleConnections on purpose:
// the library calls that method on every failure, which would empty the pool that all calls share.
type attemptTransport struct{}

func (attemptTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	l := loopOf(r.Context())
	l.made++
	now := time.Now()
	l.last = l.call.attempt(r, l.made, now, l.total(now))
	l.queued += l.last.queued
	switch resp := l.last.resp; {
	case resp == nil:
		return nil, l.last.err
	case resp.StatusCode/100 == 3:
		// http.Client parses the Location of a redirect that CheckRedirect leaves alone, and closes the response if it
		// is malformed. The response is the caller's, so the library gets another one.
		return &http.Response{StatusCode: resp.StatusCode, Body: http.NoBody, Request: r}, nil
	default:
		return resp, nil
	}
}

// checkRetry adds the last result to the knowledge of the effect, and decides whether another attempt follows.
func checkRetry(ctx context.Context, _ *http.Response, _ error) (bool, error) {
	l := loopOf(ctx)
	k, res := l.call, &l.last
	l.known = l.known.fold(res)
	l.settleBudget()
	l.decision = decision{}
	if res.verdict.Class != taxonomy.ClassSuccess {
		l.decision = l.decide()
	}
	a := res.attempt(l.made)
	if l.decision.retry {
		a.Wait = l.decision.wait
		k.logRetry(a)
	}
	if o, ok := k.client.observer.(AttemptObserver); ok {
		o.EndAttempt(res.ctx, AttemptEnd{Operation: k.op.name, Key: k.op.key, Attempt: a, Class: res.verdict.Class})
	}
	l.attempts = append(l.attempts, a)
	l.waited = l.decision.wait
	l.client.RetryWaitMin = l.decision.wait
	return l.decision.retry, nil
}

// backoff returns the wait that checkRetry chose.
func backoff(wait, _ time.Duration, _ int, _ *http.Response) time.Duration { return wait }

// decide applies the retry rule, and then the retry budget, which has a state.
func (l *loop) decide() decision {
	k, res, now := l.call, &l.last, time.Now()
	s := evidence{
		verdict: res.verdict, policy: k.policy, method: k.req.Method, keyed: k.keyed(), sent: res.sent,
		replayable: k.body.replayable(k.req), attempt: l.made, prev: l.waited, left: l.total(now),
	}
	if deadline, ok := k.ctx.Deadline(); ok {
		s.left = min(s.left, deadline.Sub(now))
	}
	if k.keyed() {
		s.left = min(s.left, k.usable-now.Sub(k.start)) // an older key may be new to the server
	}
	if res.verdict.Retry() {
		if res.resp != nil {
			s.hint, s.hinted = wire.Hint(res.resp.Header, now, res.verdict.Code.In(taxonomy.RateLimit))
		}
		s.random = rand.Float64() // a per-thread source: no lock, and no two clients in lockstep
	}
	d := decide(s)
	if res.local {
		d.retry, d.why = false, res.err
	}
	if d.retry {
		if l.owes = k.client.buckets.Withdraw(k.destination()); !l.owes {
			d.retry, d.why = false, ErrBudget
		}
	}
	return d
}

// total returns the rest of MaxElapsed.
func (l *loop) total(now time.Time) time.Duration {
	return l.call.policy.MaxElapsed - now.Sub(l.start) + l.queued
}

// settleBudget gives back the token of a retry that did not end in another transient failure at the server.
func (l *loop) settleBudget() {
	if l.owes && l.made > 0 &&
		(l.last.local || l.last.verdict.Class != taxonomy.ClassTransient || l.call.ctx.Err() != nil) {
		l.call.client.buckets.Refund(l.call.destination())
	}
	l.owes = false
}

// knowledge holds the evidence of the attempts so far about the operation's effect.
type knowledge struct {
	prior   bool // another call under the same key may have had the effect
	unknown bool // an attempt with the same payload may have had the effect
	applied bool // a response reported the effect
}

// fold adds one attempt's result.
func (k knowledge) fold(r *result) knowledge {
	switch {
	case r.verdict.Effect == Applied:
		k.applied = true
	case r.verdict.Effect == EffectUnknown, r.resent && !r.verdict.Final:
		// Of two sends one got a response. The other may have had the effect.
		k.unknown = true
	}
	return k
}

// effect returns the operation's effect after an attempt with verdict v. A refusal settles an unknown effect only if
// it comes from the server's record of the key. A refusal from in front of the record proves nothing about an earlier
// attempt. A payload mismatch proves that the other call had another payload.
func (k knowledge) effect(v taxonomy.Verdict) Effect {
	switch {
	case k.applied:
		return Applied
	case v.Effect == NotApplied && (v.Final || !k.unknown && (!k.prior || v.Code.In(taxonomy.PayloadMismatch))):
		return NotApplied
	}
	return EffectUnknown
}

// outcome returns the call's outcome after the last attempt.
func (l *loop) outcome() outcome {
	k, res := l.call, &l.last
	out := outcome{
		resp:     res.resp,
		verdict:  res.verdict,
		attempts: l.attempts,
		body:     res.body,
		effect:   l.known.effect(res.verdict),
	}
	redirect := res.resp != nil && res.resp.StatusCode/100 == 3 && res.err == nil && k.mode != modeCall
	if res.verdict.Class == taxonomy.ClassSuccess && res.resp != nil && res.resp.StatusCode < 400 || redirect {
		return out
	}
	e := &Error{
		Code: res.verdict.Code, Operation: k.op.name, Key: k.op.key, Attempts: l.attempts, Effect: out.effect, Err: res.err,
		head: res.head, cut: res.cut, whole: res.err == nil, said: res.verdict.Said, sameKey: k.op.stored || k.op.lasting,
		retry: l.decision.again || res.verdict.Code.In(taxonomy.Caller),
	}
	if e.head == nil { // the response is a success that a classifier calls a failure
		e.head = res.body.bytes
	}
	if why := l.decision.why; why != nil && !errors.Is(res.err, why) {
		e.Err = errors.Join(why, res.err)
	}
	if res.resp != nil {
		e.StatusCode, e.Response = res.resp.StatusCode, res.resp
	}
	if l.decision.again && l.decision.wait > 0 {
		e.RetryAt = time.Now().Add(l.decision.wait)
	}
	out.err = e
	return out
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
