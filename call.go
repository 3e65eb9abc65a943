package redo

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

// maxErrorBody bounds what is read of an error answer: enough for a problem document, and more than the loop
// underneath would drain, so that the connection survives an ordinary error page.
const maxErrorBody = 64 << 10

// A mode is which of the client's faces a call came through.
type mode uint8

const (
	modeDo        mode = iota // errors for answers of 400 and above, redirects followed
	modeTransport             // net/http's semantics
	modeCall                  // like modeDo; the body is read by the client, as part of the attempt
)

// A call is one Do or RoundTrip from its first to its last attempt. One goroutine runs it.
type call struct {
	context.Context // the caller's, or what the observer made of it
	*history        // nil while there is nothing to tell

	client  *Client
	req     *http.Request // the caller's, never changed
	mode    mode
	op      operation
	keyLine [1]string // backs the key header's value
	payload payload
	claimed *claimed // nil when the operation is not stored

	first attempt
	loop  *loop          // nil before the first retry
	resp  *http.Response // the last answer, nil when the last attempt got none

	verdict   taxonomy.Verdict
	withdrawn bool // the present attempt is paid from the retry budget
	applied   bool // some attempt's answer said so
	unknown   bool // some attempt may have had its effect
	keyGone   bool // a redirect to another origin dropped the key
	fromStore bool
}

// A history is what a call has to tell that did not succeed at once, or that is watched.
type history struct {
	attempts []Attempt
	decision decision // after the last attempt
	cause    error    // the last attempt's transport error
}

type callKey struct{}

// Value hands the call to the layers below, through the context that their requests carry.
func (k *call) Value(key any) any {
	if key == (callKey{}) {
		return k
	}
	return k.Context.Value(key)
}

func callFrom(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// perform runs one call to its end. It returns a response, an error, or both: an answer of 400 and above is a
// response with an error. It always closes the request's body.
func (c *Client) perform(req *http.Request, m mode) (*http.Response, *Error) {
	if e := c.check(req); e != nil {
		closeBody(req)
		return nil, e
	}
	op, e := c.plan(req)
	if e != nil {
		closeBody(req)
		return nil, e
	}
	k := &call{Context: req.Context(), client: c, req: req, mode: m, op: op}
	k.first.number, k.first.start = 1, time.Now()
	defer k.payload.close(req)
	var resp *http.Response
	if c.store != nil && op.name != "" {
		k.claimed = &claimed{}
		resp, e = k.runStored()
	} else {
		resp, e = k.run()
	}
	return resp, e
}

// run makes the attempts of an operation that is not stored.
func (k *call) run() (*http.Response, *Error) {
	if k.client.wantsKey(k.op, k.req) {
		key, e := k.client.newKey(k.op.name, k.first.start)
		if e != nil {
			return nil, e
		}
		k.op.key = key
	}
	return k.send()
}

// send makes the attempts: the loop is go-retryablehttp's, every decision in it is ours.
func (k *call) send() (*http.Response, *Error) {
	c := k.client
	if c.observer != nil {
		k.Context = c.observer.StartOperation(k.Context, k.startOf())
	}
	c.buckets.deposit(k.dest())
	k.try(&k.first)
	if k.history != nil && k.decision.retry {
		k.retry()
		k.settleBudget()
		if caller := ended(k.req); caller != nil && k.decision.retry {
			// The context ended while the loop slept: it returns the bare error and asks nobody.
			k.decision = decision{}
			k.verdict = taxonomy.Classify(taxonomy.Answer{Caller: caller, Sent: k.unknown})
			k.cause = errors.Join(caller, k.cause)
		}
	}
	return k.finish(k.resp)
}

func (k *call) startOf() OperationStart {
	return OperationStart{Operation: k.op.name, Key: k.op.key, Method: k.req.Method, Host: k.dest().host, Resumed: k.op.prior}
}

// ended returns why the caller's context has ended, its cause included; nil while it has not.
func ended(req *http.Request) error {
	ctx := req.Context()
	err := ctx.Err()
	if err == nil {
		select {
		case <-req.Cancel: //nolint:staticcheck // an http.Client above with a Timeout closes it at the very instant of its context's deadline
			if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
				return context.DeadlineExceeded
			}
			return context.Canceled
		default:
			return nil
		}
	}
	if cause := context.Cause(ctx); !errors.Is(cause, err) {
		return errors.Join(cause, err)
	}
	return err
}

// judge classifies the attempt that just ended, and decides what follows.
func (k *call) judge(a *attempt, resp *http.Response, err error) {
	c := k.client
	answer := taxonomy.Answer{Err: err, Directives: c.profile.ShouldRetry, StatusCodes: c.statusCodes}
	if resp != nil {
		answer.Status = resp.StatusCode
		if resp.StatusCode >= http.StatusBadRequest || a.resent() {
			answer.Header = resp.Header // of a plain success nothing more is asked
		}
		answer.Body, answer.Err = k.receive(a, resp)
	} else {
		a.end()
	}
	answer.Sent = resp != nil || a.sent(c.traced, err)
	if answer.Err != nil {
		// An answer that came in whole as the caller gave up is still an answer.
		if answer.Caller = ended(k.req); answer.Caller != nil && !errors.Is(answer.Err, answer.Caller) {
			answer.Err = errors.Join(answer.Caller, answer.Err)
		}
	}
	v, local := localVerdict(answer.Err)
	if !local {
		v = taxonomy.Classify(answer)
	}
	if k.keyGone && a.wireSends() > 0 && v.Class != taxonomy.ClassSuccess && v.Effect != NotApplied {
		// The attempt went to another origin without the key: nothing makes a repetition safe.
		v.Class, v.Final = taxonomy.ClassTerminal, true
	}
	k.verdict, k.resp = v, resp
	k.note(v, a)
	if v.Class == taxonomy.ClassSuccess && answer.Status < 400 && k.unwatched(a) {
		return
	}
	if k.history == nil {
		k.history = &history{}
	}
	k.cause = answer.Err
	now := time.Now()
	s := situation{
		verdict: v, policy: c.retry, method: k.req.Method, keyed: k.op.key != "" && !k.keyGone, sent: answer.Sent,
		replayable: k.payload.replayable(k.req), attempt: int(a.number), prev: a.waited, left: k.left(now),
	}
	if v.Retry() {
		s.hint, s.hinted = wire.Hint(answer.Header, now, v.Code.In(taxonomy.RateLimit))
		s.random = rand.Float64() // a per-thread source: no lock, and no two clients in lockstep
	}
	k.decision = decide(s)
	if local {
		k.decision.retry, k.decision.why = false, answer.Err
	}
	k.settleBudget()
	if k.decision.retry && !c.buckets.withdraw(k.dest()) {
		k.decision.retry, k.decision.why = false, ErrBudget
	} else if k.decision.retry {
		k.withdrawn = true
	}
	k.record(a, answer, now)
	if resp != nil && k.decision.retry {
		discard(resp)
		k.resp = nil
	}
}

// unwatched reports whether nobody is to be told of a first attempt that succeeded. It spares the hot path a clock
// reading.
func (k *call) unwatched(a *attempt) bool {
	c := k.client
	return c.observer == nil && c.breaker == nil && c.limiter == nil && k.mode != modeCall && a == &k.first
}

// note folds the attempt's effect into the operation's.
func (k *call) note(v taxonomy.Verdict, a *attempt) {
	switch {
	case v.Effect == Applied:
		k.applied = true
	case v.Effect == EffectUnknown, a.resent() && !v.Final:
		// Of two sends one was answered: the other may have had its effect.
		k.unknown = true
	}
}

// resent reports whether net/http sent the attempt's request more than once. A redirect is an answer.
func (a *attempt) resent() bool { return a.wireSends() > 1+int(a.hops) }

// effect is what is known of the operation, over all its attempts. A refusal settles an earlier attempt's
// unknown effect only when it comes from the server's record of the key: refusals that are made in front of
// that record (authentication, limits, routing) say nothing of what happened before.
func (k *call) effect() Effect {
	switch {
	case k.applied:
		return Applied
	case k.verdict.Effect == NotApplied && (k.verdict.Final || !k.unknown && !k.op.prior):
		return NotApplied
	}
	return EffectUnknown
}

// record keeps the attempt for the error, the observer and the log.
func (k *call) record(a *attempt, answer taxonomy.Answer, now time.Time) {
	rec := Attempt{
		Number: int(a.number), Status: answer.Status, Code: k.verdict.Code, Err: answer.Err,
		Elapsed: now.Sub(a.start), WireSends: a.wireSends(),
	}
	if rec.WireSends == 0 && answer.Sent {
		rec.WireSends = 1
	}
	if k.decision.retry {
		rec.Wait = k.decision.wait
		k.logRetry(rec)
	}
	k.attempts = append(k.attempts, rec)
	if o, ok := k.client.observer.(AttemptObserver); ok {
		o.EndAttempt(a.ctx, AttemptEnd{Operation: k.op.name, Key: k.op.key, Attempt: rec, Class: k.verdict.Class})
	}
	a.tell(health(k.verdict, answer.Status != 0))
	if l, ok := limiterFor(k.client.limiter, k.dest()).(limitReporter); ok && answer.Status != 0 {
		l.Report(k.verdict.Code.In(taxonomy.RateLimit))
	}
}

func health(v taxonomy.Verdict, answered bool) AttemptHealth {
	switch {
	case v.Code.In(taxonomy.Caller):
		return Neutral
	case v.Class == taxonomy.ClassTransient && !v.Code.In(taxonomy.Conflict):
		return Unhealthy
	case !answered:
		return Neutral // ended here: no credentials, a name that does not resolve, a certificate that is not trusted
	}
	return Healthy
}

// settleBudget gives back the token of a retry that did not end in another transient failure at the server: the
// breaker and the limiter refuse before anything is sent.
func (k *call) settleBudget() {
	if !k.withdrawn {
		return
	}
	k.withdrawn = false
	if _, here := localVerdict(k.cause); here || k.verdict.Class != taxonomy.ClassTransient || k.Err() != nil {
		k.client.buckets.refund(k.dest())
	}
}

// dest is where the operation goes: a redirect does not change it.
func (k *call) dest() destination { return destination{k.req.URL.Scheme, k.req.URL.Host} }

// left is what is left of MaxElapsed and of the caller's deadline.
func (k *call) left(now time.Time) time.Duration {
	left := k.client.retry.MaxElapsed - now.Sub(k.first.start)
	if deadline, ok := k.Deadline(); ok {
		left = min(left, deadline.Sub(now))
	}
	return left
}

// finish turns the last verdict into what the caller gets.
func (k *call) finish(resp *http.Response) (*http.Response, *Error) {
	var e *Error
	if k.verdict.Class != taxonomy.ClassSuccess || resp == nil || resp.StatusCode >= 400 {
		e = k.failure(resp)
	}
	if o := k.client.observer; o != nil {
		o.EndOperation(k.Context, OperationEnd{
			Operation: k.op.name, Key: k.op.key, Attempts: len(k.attempts), Elapsed: time.Since(k.first.start),
			Effect: k.effect(), Replayed: Replayed(resp), Err: e,
		})
	}
	return resp, e
}

func (k *call) failure(resp *http.Response) *Error {
	e := &Error{
		Code: k.verdict.Code, Operation: k.op.name, Key: k.op.key, Attempts: k.attempts, Effect: k.effect(),
		said: k.verdict.Said, sameKey: k.op.stored || k.op.fixedKey || k.derived(), Err: k.cause,
		retry: k.decision.again || k.verdict.Code.In(taxonomy.Caller),
	}
	if k.decision.why != nil && !errors.Is(k.cause, k.decision.why) {
		e.Err = errors.Join(k.decision.why, k.cause)
	}
	if resp != nil {
		e.StatusCode, e.Response = resp.StatusCode, resp
	}
	if k.decision.again && k.decision.wait > 0 {
		e.RetryAt = time.Now().Add(k.decision.wait)
	}
	return e
}

// derived reports whether the operation's name alone gives its key.
func (k *call) derived() bool {
	if k.op.name == "" || k.op.key == "" || k.client.keys == nil {
		return false
	}
	key, err := k.client.keys(k.op.name)
	return err == nil && key == k.op.key
}

// localVerdict classifies what this client refused by itself, before anything was sent.
func localVerdict(err error) (taxonomy.Verdict, bool) {
	v := taxonomy.Verdict{Class: taxonomy.ClassTransient, Effect: NotApplied}
	switch {
	case err == nil:
		return v, false
	case errors.Is(err, ErrBreakerOpen):
		v.Code = taxonomy.Unavailable
	case errors.Is(err, ErrLimited):
		v.Code = taxonomy.RateLimited
	default:
		refused, ok := errors.AsType[*refusedError](err)
		if !ok {
			return v, false
		}
		v.Code, v.Class, v.Effect = refused.code, taxonomy.ClassTerminal, refused.effect
	}
	return v, true
}

// refusedError is an attempt that this client ended by itself.
type refusedError struct {
	code   taxonomy.Code
	effect Effect
	err    error
}

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }
