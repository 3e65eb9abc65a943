package redo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/redo-go/redo/internal/decision"
	"github.com/redo-go/redo/internal/exchange"
	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/limit"
	"github.com/redo-go/redo/taxonomy"
)

// An attempt is one request of a call, with its own clock, header and body.
type attempt struct {
	exchange.Exchange
	call   *call
	start  time.Time // when its clock started; waiting for a limiter comes before
	budget time.Duration
	report func(limit.Health) // the breaker's; nil if there is none
	waited bool               // the limiter let the attempt pass, and was not told of its end
}

// A result holds the response or the error of one attempt, and its verdict.
type result struct {
	exchange.Received
	ctx     context.Context // the attempt's, or the observer's on top of it
	resp    *http.Response  // nil if there was none
	err     error           // the transport's error, the one met while reading the body, or this client's own refusal
	verdict taxonomy.Verdict
	sends   int
	queued  time.Duration // spent waiting for the limiter
	elapsed time.Duration
	local   bool // this client refused the attempt
	sent    bool // the request was, or may have been, written
	resent  bool // net/http sent the request more than once
	streams bool // the caller reads the response of a stored operation as it arrives
}

// attempt makes one attempt at the time now, and returns its result.
func (l *loop) attempt(ctx context.Context, now time.Time) result {
	k, c, total := l.call, l.call.client, l.total(now)
	a := attempt{
		Exchange: exchange.Exchange{
			Transport: c.base, Connections: &l.connections, Outer: k.mode == modeTransport, Keyed: k.op.key != "", Body: &k.body,
			NoRedirects: intentOf(k.req.Context()).noRedirects,
			Lost:        func(r *http.Request) bool { return loopOf(r.Context()) == nil },
		},
		call: k, start: now, budget: max(1, min(k.policy.AttemptTimeout, total)), // zero would set no limit
	}
	if observer, ok := c.observer.(AttemptObserver); ok {
		ctx = observer.StartAttempt(ctx, AttemptStart{Operation: k.op.name, Key: k.op.key, Number: l.number()})
	}
	var err error
	switch {
	case k.usable() <= 0:
		err = ErrTooLate // the wait took longer than planned, for example because the machine was suspended
	case c.breaker != nil || c.limiter != nil:
		defer a.reportEnd(&result{}) // a transport that panics must leave neither breaker nor limiter waiting
		err = a.admit(ctx, total)
		a.start = time.Now()
	}
	if err == nil && (l.number() > 1 || a.start.Sub(now) > 10*time.Millisecond) { // time for another caller
		err = k.overtaken()
	}
	var resp *http.Response
	if err == nil {
		resp, err = a.send(ctx)
	}
	res := a.result(resp, err)
	res.ctx, res.queued = ctx, a.start.Sub(now)
	a.reportEnd(&res)
	return res
}

// admit calls the breaker and waits for the limiter. The attempt's clock does not run yet. An open circuit comes first:
// its refusals must neither wait nor use up the limit.
func (a *attempt) admit(ctx context.Context, total time.Duration) (err error) {
	k, c := a.call, a.call.client
	if c.breaker != nil {
		if a.report, err = limit.Allow(c.breaker, k.destination()); err != nil {
			return err
		}
	}
	if l := limit.For(c.limiter, k.destination()); l != nil {
		wait, cancel := context.WithTimeout(ctx, min(total, k.usable())) // the key grows old in the queue too
		err = limit.Wait(wait, l)
		cancel()
		if caller := exchange.Ended(k.req); err != nil && caller != nil {
			return cmp.Or(context.Cause(ctx), caller)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return ErrLimited // the deadline was this wait's own, and no caller's
		}
		a.waited = err == nil
	}
	return err
}

// reportEnd reports the attempt's end to the breaker and the limiter. Only the first call has an effect.
func (a *attempt) reportEnd(res *result) {
	if report := a.report; report != nil {
		a.report = nil
		report(decision.Health(res.verdict, res.resp != nil, res.local))
	}
	if a.waited {
		a.waited = false
		limit.Report(a.call.client.limiter, a.call.destination(), decision.Response(res.verdict, res.resp, a.start))
	}
}

// send starts the clock, and sends a request with the attempt's own context, header and body.
func (a *attempt) send(ctx context.Context) (*http.Response, error) {
	budget := a.budget
	if a.Outer { // the time limits are the SDK's
		budget = 0
	}
	out := a.call.req.WithContext(a.Begin(ctx, budget))
	out.Header, out.RequestURI = a.header(), ""
	if u := out.URL.User; u != nil && out.Header.Get("Authorization") == "" { // as http.Client does it
		password, _ := u.Password()
		out.SetBasicAuth(u.Username(), password)
	}
	if err := a.Body.Attach(out); err != nil {
		return nil, &exchange.Refused{Code: taxonomy.BodyNotReplayable, Effect: NotApplied, Err: err}
	}
	if err := a.Authorize(out, a.call.client.credentials); err != nil {
		if out.Body != nil {
			_ = out.Body.Close()
		}
		return nil, &exchange.Refused{Code: taxonomy.Auth + ".credentials", Effect: NotApplied, Err: err}
	}
	return a.Send(out)
}

// header returns the attempt's own header. It shares its values with the caller's request, so they are never changed.
func (a *attempt) header() http.Header {
	k, p := a.call, &a.call.client.profile
	passes := k.passes()
	h := maps.Clone(k.req.Header)
	if h == nil {
		h = http.Header{}
	}
	if !passes {
		// Another spelling of the key header would be a second key on the wire.
		maps.DeleteFunc(h, func(name string, _ []string) bool { return name != p.Header && wire.SameName(name, p.Header) })
	}
	if k.restored { // another spelling of a stored header would send it twice
		maps.DeleteFunc(h, func(name string, _ []string) bool {
			name = http.CanonicalHeaderKey(name)
			return k.header[name] != nil || k.client.meaning.Replaces(name)
		})
		maps.Copy(h, k.header)
	}
	switch {
	case passes: // an SDK's own key goes as it is
	case k.op.key == "":
		delete(h, p.Header)
	case !p.KeyInBody && !p.NoKeys:
		h[p.Header] = []string{wire.FormatKey(k.op.key, p.Quoted, p.Verbatim)}
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
	wait, bounded = a.budget, !a.Outer
	if deadline, ok := a.call.ctx.Deadline(); ok && (!bounded || time.Until(deadline) < wait) {
		return time.Until(deadline), true
	}
	return wait, bounded
}

// result reads the part of the response that the client needs, and classifies the attempt.
func (a *attempt) result(resp *http.Response, err error) result {
	k, p := a.call, &a.call.client.profile
	var res result
	if err != nil {
		res.err = a.Fail(resp, err)
	} else {
		res.resp = resp
		res.streams = k.op.stored && k.mode != modeCall && resp.StatusCode/100 == 2 && wire.Streams(resp)
		res.Received, res.err = a.Receive(resp, k.reading())
	}
	res.err = wire.WithoutQuery(res.err)
	res.sends, res.resent, res.sent = a.Sends(), a.Resent(), a.Sent(err)
	answer := taxonomy.Answer{
		Err: res.err, Sent: res.sent, Body: res.Head, Directives: p.ShouldRetry,
		StatusCodes: p.Statuses, Codes: p.Codes, Markers: p.ReplayMarkers,
	}
	if res.resp != nil {
		answer.Status, answer.Header = resp.StatusCode, resp.Header
		if name := p.LifetimeHeader; name != "" {
			retention, _ := wire.Lifetime(resp.Header.Get(name))
			k.client.retention.Learn(retention)
		}
	}
	if res.err != nil {
		// A response that arrived whole counts, even if the caller's context has ended.
		if answer.Caller = exchange.Ended(k.req); answer.Caller != nil {
			res.err = exchange.WithReason(k.req, answer.Caller, res.err)
		}
	}
	// The cause of a context that has ended may be another call's error, and the transport may be another client.
	if _, foreign := errors.AsType[*Error](res.err); answer.Caller == nil && !foreign {
		res.verdict, res.local = decision.Refusal(res.err)
	}
	if !res.local {
		res.verdict = taxonomy.Classify(answer)
	}
	if res.resp != nil && answer.Caller == nil && !res.local {
		if res.classify(k); res.verdict.Class != taxonomy.ClassSuccess && resp.StatusCode/100 == 2 {
			res.Received = a.Demote(resp, res.Received, res.verdict.Retry()) // the 2xx means a failure
		}
	}
	res.elapsed = time.Since(a.start)
	return res
}

// reading returns how much of a success's body is read within the attempt.
func (k *call) reading() exchange.Reading {
	c := k.client
	switch {
	case k.mode == modeCall:
		return exchange.Reading{Whole: c.maxResponse}
	case k.op.stored || c.classifier != nil || c.profile.Classifier != nil:
		return exchange.Reading{Head: max(c.maxStored, exchange.MaxErrorBody)}
	}
	return exchange.Reading{}
}

// classify applies the rules of Call for JSON responses, then the profile's classifier, then the client's.
func (r *result) classify(k *call) {
	if k.mode == modeCall && r.verdict.Class == taxonomy.ClassSuccess && r.resp.StatusCode < 400 { // no duplicate
		switch {
		case r.resp.StatusCode/100 != 2:
			r.verdict = taxonomy.Verdict{Code: taxonomy.RedirectNotFollowed}
		case len(r.Head) > 0 && !json.Valid(r.Head):
			// A captive portal or a login page returned 200 in place of the server.
			r.verdict = taxonomy.Verdict{Code: taxonomy.Provider + ".malformed"}
			r.err = errors.New("redo: the response's body is not JSON")
		}
	}
	body, first := r.Head[:min(len(r.Head), exchange.MaxErrorBody)], r.verdict.Code
	for _, f := range [...]Classifier{k.client.profile.Classifier, k.client.classifier} {
		if f == nil {
			continue
		}
		v, kept := f(r.resp, body, r.verdict), r.verdict.Code
		if v.Class == taxonomy.ClassTransient && (kept.In(taxonomy.PayloadMismatch) || kept.In(taxonomy.KeyExpired)) {
			continue
		}
		if r.verdict = v; v.Class == taxonomy.ClassSuccess && v.Effect == EffectUnknown {
			r.verdict.Effect = Applied
		}
	}
	if r.verdict.Code == "" && (r.verdict.Class != taxonomy.ClassSuccess || r.resp.StatusCode >= 400) {
		r.verdict.Code = cmp.Or(first, taxonomy.Provider+".failure") // an error's code is never empty
	}
}

// attempt returns the result as errors, observers and logs show it.
func (r *result) attempt(number int) Attempt {
	rec := Attempt{Number: number, Code: r.verdict.Code, Err: r.err, Elapsed: r.elapsed, WireSends: r.sends}
	if r.resp != nil {
		rec.Status = r.resp.StatusCode
	}
	if rec.WireSends == 0 && r.sent {
		rec.WireSends = 1
	}
	return rec
}
