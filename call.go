package redo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/hashicorp/go-retryablehttp"

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
	client  *Client
	req     *http.Request // the caller's, never changed
	ctx     callContext
	mode    mode
	op      operation
	dest    destination
	start   time.Time
	keyLine [1]string // backs the key header's value
	payload payload

	loop     retryablehttp.Client
	loopReq  retryablehttp.Request
	current  *attempt
	first    attempt
	attempts []Attempt
	made     [1]Attempt // backs attempts: most calls have one

	verdict   taxonomy.Verdict
	decision  decision
	withdrawn bool // the present attempt is paid from the retry budget
	applied   bool // some attempt's answer said so
	unknown   bool // some attempt may have had its effect
	keyGone   bool // a redirect to another origin dropped the key
	fromStore bool
	cause     error          // the last attempt's transport error
	captured  *wire.Response // the answer, for the store and for Call
	tooLong   bool           // the captured body is over the cap
	header    http.Header    // the answer's, while http.Client must not see its Location
}

// callContext hands a call to the layers below through the request's context.
type callContext struct {
	context.Context
	call *call
}

type callKey struct{}

func (c *callContext) Value(key any) any {
	if key == (callKey{}) {
		return c.call
	}
	return c.Context.Value(key)
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
	k := &call{
		client: c, req: req, mode: m, op: op, start: time.Now(),
		dest:    destination{req.URL.Scheme, req.URL.Host},
		payload: payload{request: req},
	}
	k.ctx = callContext{req.Context(), k}
	defer k.payload.close()
	var resp *http.Response
	if c.store != nil && op.name != "" {
		resp, e = k.runStored()
	} else {
		resp, e = k.run()
	}
	return resp, e
}

// run makes the attempts of an operation that is not stored.
func (k *call) run() (*http.Response, *Error) {
	if k.client.wantsKey(k.op, k.req) {
		key, e := k.client.newKey(k.op.name)
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
		k.ctx.Context = c.observer.StartOperation(k.ctx.Context, k.startOf())
	}
	k.attempts = k.made[:0]
	k.loop.HTTPClient = c.http
	k.loop.RetryMax = c.retry.MaxAttempts // never reached: the decision counts, and stops one earlier
	k.loop.CheckRetry = checkRetry
	k.loop.Backoff = backoff
	k.loop.PrepareRetry = prepareRetry
	k.loop.ErrorHandler = retryablehttp.PassthroughErrorHandler
	k.first.number, k.first.start = 1, k.start
	k.open(&k.first)
	c.buckets.deposit(k.dest)
	resp, _ := k.loop.Do(&k.loopReq)
	k.settleBudget()
	if caller := ended(k.req); caller != nil && resp == nil && k.decision.retry {
		// The context ended while the loop slept: it returns the bare error and asks nobody.
		k.decision = decision{}
		k.verdict = taxonomy.Classify(taxonomy.Answer{Caller: caller, Sent: k.unknown})
		k.cause = errors.Join(caller, k.cause)
	}
	return k.finish(resp)
}

func (k *call) startOf() OperationStart {
	return OperationStart{Operation: k.op.name, Key: k.op.key, Method: k.req.Method, Host: k.dest.host, Resumed: k.op.prior}
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

// checkRetry is the loop's question whether to go on.
func checkRetry(ctx context.Context, resp *http.Response, err error) (bool, error) {
	return callFrom(ctx).judge(resp, err), nil
}

// backoff returns the wait that the decision put there.
func backoff(wait, _ time.Duration, _ int, _ *http.Response) time.Duration { return wait }

// prepareRetry begins the next attempt, after the wait.
func prepareRetry(r *http.Request) error {
	k := callFrom(r.Context())
	k.open(&attempt{number: k.current.number + 1, start: time.Now(), waited: k.decision.wait})
	return nil
}

// judge classifies the attempt that just ended, and decides what follows.
func (k *call) judge(resp *http.Response, err error) bool {
	a, c := k.current, k.client
	if ue, ok := err.(*url.Error); ok { //nolint:errorlint // http.Client's own wrapping, which adds the URL: it must not get into errors and logs
		err = ue.Err
	}
	if resp != nil && k.header != nil {
		resp.Header = k.header
	}
	k.header = nil
	answer := taxonomy.Answer{Err: err, Directives: c.profile.ShouldRetry, StatusCodes: c.statusCodes}
	if resp != nil {
		answer.Status, answer.Header = resp.StatusCode, resp.Header
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
	k.verdict, k.cause = v, answer.Err
	k.note(v, a)

	now := time.Now()
	s := situation{
		verdict: v, policy: c.retry, method: k.req.Method, keyed: k.op.key != "" && !k.keyGone, sent: answer.Sent,
		replayable: k.payload.replayable(), attempt: a.number, prev: a.waited, left: k.left(now),
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
	if k.decision.retry && !c.buckets.withdraw(k.dest) {
		k.decision.retry, k.decision.why = false, ErrBudget
	} else if k.decision.retry {
		k.withdrawn = true
	}
	k.record(a, answer, now)
	if k.decision.retry {
		k.loop.RetryWaitMin = k.decision.wait
		k.loopReq.Request = k.shell(&k.ctx) // it waits on the caller's context: the attempt's has ended
	}
	return k.decision.retry
}

// note folds the attempt's effect into the operation's.
func (k *call) note(v taxonomy.Verdict, a *attempt) {
	switch {
	case v.Effect == Applied:
		k.applied = true
	case v.Effect == EffectUnknown, a.wireSends() > 1+a.hops && !v.Final:
		// Of two sends one was answered: the other may have had its effect. A redirect is an answer too.
		k.unknown = true
	}
}

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
		Number: a.number, Status: answer.Status, Code: k.verdict.Code, Err: answer.Err,
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
	if a.report != nil {
		a.report(health(k.verdict, answer.Status != 0))
	}
	if l, ok := limiterFor(k.client.limiter, k.dest).(limitReporter); ok && answer.Status != 0 {
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
	if _, here := localVerdict(k.cause); here || k.verdict.Class != taxonomy.ClassTransient || k.ctx.Err() != nil {
		k.client.buckets.refund(k.dest)
	}
}

// left is what is left of MaxElapsed and of the caller's deadline.
func (k *call) left(now time.Time) time.Duration {
	left := k.client.retry.MaxElapsed - now.Sub(k.start)
	if deadline, ok := k.ctx.Deadline(); ok {
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
		o.EndOperation(k.ctx.Context, OperationEnd{
			Operation: k.op.name, Key: k.op.key, Attempts: len(k.attempts), Elapsed: time.Since(k.start),
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

// A payload gives each attempt its own reader over the request's body.
type payload struct {
	request *http.Request
	bytes   []byte // the whole body, when it had to be read for the store
	read    bool   // bytes is set, and the request's own body is closed
	used    bool   // the request's own body was handed to an attempt, which closes it
}

func (p *payload) empty() bool { return p.request.Body == nil || p.request.Body == http.NoBody }

func (p *payload) replayable() bool { return p.empty() || p.read || p.request.GetBody != nil }

// next returns the body for the next attempt. The first gets the request's own, so that nothing is copied.
func (p *payload) next() (io.ReadCloser, error) {
	switch {
	case p.empty():
		return p.request.Body, nil
	case p.read && len(p.bytes) == 0:
		return http.NoBody, nil
	case p.read:
		return io.NopCloser(bytes.NewReader(p.bytes)), nil
	case !p.used:
		p.used = true
		return p.request.Body, nil
	case p.request.GetBody == nil:
		return nil, ErrNotReplayable
	}
	return p.request.GetBody()
}

// close closes the request's own body if no attempt was given it.
func (p *payload) close() {
	if !p.used && !p.read {
		closeBody(p.request)
	}
}

func closeBody(req *http.Request) {
	if req != nil && req.Body != nil {
		_ = req.Body.Close()
	}
}
