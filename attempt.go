package redo

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redo-go/redo/limit"
	"github.com/redo-go/redo/taxonomy"
)

// An attempt is one request of a call, with a clock, a header and a body of its own.
type attempt struct {
	call   *call
	number int
	start  time.Time // when its clock started; waiting for a limiter comes before
	budget time.Duration
	ctx    context.Context // the attempt's own; nil before the clock starts
	clock  clock
	asked  atomic.Int32       // connections that the transport asked for
	got    atomic.Int32       // connections that it got: each may have carried the request
	handed bool               // the transport was called
	hops   int                // redirects that were followed
	report func(limit.Health) // the breaker's; nil if there is none
	added  map[string]bool    // headers that the credentials function set
}

// attempt makes one attempt at the time now, and returns its result. r is the request that the loop sends, and total
// is the rest of MaxElapsed.
func (k *call) attempt(r *http.Request, number int, now time.Time, total time.Duration) result {
	a := &attempt{call: k, number: number, start: now, budget: min(k.policy.AttemptTimeout, total)}
	ctx := r.Context()
	if observer, ok := k.client.observer.(AttemptObserver); ok {
		ctx = observer.StartAttempt(ctx, AttemptStart{Operation: k.op.name, Key: k.op.key, Number: number})
	}
	var err error
	if k.client.breaker != nil || k.client.limiter != nil {
		defer a.reportHealth(limit.Neutral) // a transport that panics must not leave the breaker waiting for its probe
		err = a.admit(ctx, total)
		a.start = time.Now()
	}
	var resp *http.Response
	if err == nil {
		resp, err = a.send(ctx, r)
	}
	res := a.result(resp, err)
	res.ctx, res.queued = ctx, a.start.Sub(now)
	a.reportHealth(health(res))
	if l, ok := limit.For(k.client.limiter, k.destination()).(limit.Reporter); ok && res.resp != nil {
		l.Report(res.verdict.Code.In(taxonomy.RateLimit))
	}
	return res
}

// admit waits for the limiter and calls the breaker. The attempt's clock does not run yet.
func (a *attempt) admit(ctx context.Context, total time.Duration) error {
	k, c := a.call, a.call.client
	if l := limit.For(c.limiter, k.destination()); l != nil {
		if k.keyed() {
			total = min(total, k.usable-time.Since(k.start)) // the key grows old in the queue too
		}
		wait, cancel := context.WithTimeout(ctx, total)
		err := l.Wait(wait)
		cancel()
		if err != nil {
			if caller := k.ended(); caller != nil {
				return cmp.Or(context.Cause(ctx), caller)
			}
			if errors.Is(err, context.DeadlineExceeded) {
				return ErrLimited // the deadline was this wait's own, and no caller's
			}
			return errors.Join(ErrLimited, err)
		}
	}
	if c.breaker != nil {
		done, err := c.breaker.Allow(k.destination().String())
		if err != nil {
			return errors.Join(ErrBreakerOpen, err)
		}
		a.report = done
	}
	return nil
}

// reportHealth reports the attempt's health to the breaker. Only the first call has an effect.
func (a *attempt) reportHealth(h limit.Health) {
	if report := a.report; report != nil {
		a.report = nil
		report(h)
	}
}

// send starts the clock, sends the attempt's request, and follows redirects as [attempt.follow] decides.
func (a *attempt) send(ctx context.Context, r *http.Request) (*http.Response, error) {
	k, c := a.call, a.call.client
	if k.mode != modeTransport { // there time limits are the SDK's
		ctx, a.clock = startClock(ctx, a.budget)
	}
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { a.got.Add(1) }}
	if c.traced {
		trace.GetConn = func(string) { a.asked.Add(1) }
	}
	ctx = httptrace.WithClientTrace(ctx, trace)
	a.ctx = ctx
	out := r.WithContext(ctx)
	out.Header = a.header(r.Header)
	if err := k.body.attach(out, k.req); err != nil {
		return nil, &refusedError{code: taxonomy.BodyNotReplayable, effect: NotApplied, err: err}
	}
	if err := a.authorize(out); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		closeBody(out)
		return nil, context.Cause(ctx)
	}
	a.handed = true
	for {
		resp, err := c.base.RoundTrip(out)
		switch {
		case err != nil:
			return nil, err
		case resp == nil:
			return nil, errNoResponse
		case resp.Body == nil:
			resp.Body = http.NoBody
		}
		if resp.Request == nil || loopOf(resp.Request.Context()) == nil {
			resp.Request = out // a custom transport lost it
		}
		if resp.StatusCode/100 != 3 {
			return resp, nil
		}
		next, err := a.follow(out, resp)
		if err != nil || next == nil {
			return resp, err
		}
		out = next
		a.hops++
	}
}

// errNoResponse reports a transport that broke the rule of http.RoundTripper.
var errNoResponse = errors.New("redo: the transport returned neither a response nor an error")

// header returns the attempt's own header. It shares its values with the caller's request, so they are never changed.
func (a *attempt) header(from http.Header) http.Header {
	k, p := a.call, &a.call.client.profile
	h := maps.Clone(from)
	if h == nil {
		h = make(http.Header, 2)
	}
	for name := range h {
		if name != p.Header && len(name) == len(p.Header) && http.CanonicalHeaderKey(name) == p.Header {
			delete(h, name) // two spellings would be two keys on the wire
		}
	}
	maps.Copy(h, k.header)
	switch {
	case k.passes(): // an SDK's own key goes as it is
	case k.op.key == "":
		delete(h, p.Header)
	case !p.KeyInBody && !p.NoKeys:
		h[p.Header] = []string{p.encode(k.op.key)}
		if p.FirstSentHeader != "" {
			h[p.FirstSentHeader] = []string{k.first.UTC().Format(http.TimeFormat)}
		}
	}
	if p.TimeoutHeader != "" && h[p.TimeoutHeader] == nil {
		if wait, bounded := a.patience(); bounded {
			h[p.TimeoutHeader] = []string{strconv.FormatInt(max(1, wait.Milliseconds()), 10)}
		}
	}
	return h
}

// patience returns how long the client waits for the response. bounded is false if it waits forever.
func (a *attempt) patience() (wait time.Duration, bounded bool) {
	wait, bounded = a.budget, a.call.mode != modeTransport
	if deadline, ok := a.call.ctx.Deadline(); ok {
		left := time.Until(deadline)
		if !bounded {
			return left, true
		}
		wait = min(wait, left)
	}
	return wait, bounded
}

// authorize calls the caller's credentials function on the attempt's request, and records which headers it set.
func (a *attempt) authorize(out *http.Request) error {
	credentials := a.call.client.credentials
	if credentials == nil {
		return nil
	}
	before := out.Header
	out.Header = before.Clone() // Header.Add would write into the caller's values
	err := credentials(out)
	if err == nil {
		err = checkHeader(out.Header)
	}
	if err != nil {
		closeBody(out)
		return &refusedError{code: taxonomy.Auth + ".credentials", effect: NotApplied, err: err}
	}
	a.added = map[string]bool{}
	for name, values := range out.Header {
		a.added[name] = !slices.Equal(before[name], values)
	}
	return nil
}

// explain adds ErrAttemptTimeout to an error that the attempt's own clock caused.
func (a *attempt) explain(err error) error {
	if err == nil || a.ctx == nil || !errors.Is(context.Cause(a.ctx), ErrAttemptTimeout) ||
		errors.Is(err, ErrAttemptTimeout) {
		return err
	}
	if errors.Is(err, context.Canceled) {
		return ErrAttemptTimeout // the clock cancelled the context, and no caller
	}
	return errors.Join(ErrAttemptTimeout, err)
}

// sends returns the number of connections that may have carried the request.
func (a *attempt) sends() int { return int(a.got.Load()) }

// resent reports whether net/http sent the request more than once.
func (a *attempt) resent() bool { return a.sends() > 1+a.hops }

// sent reports whether the request was, or may have been, written. net/http's transport did not write a request for
// which it got no connection. For any other transport only a dial or a DNS error proves that nothing was written.
func (a *attempt) sent(err error) bool {
	switch {
	case !a.handed:
		return false
	case err == nil || a.sends() > 0:
		return true
	case a.call.client.traced && a.asked.Load() > 0:
		return false
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return false
	}
	_, unknownHost := errors.AsType[*net.DNSError](err)
	return !unknownHost
}
