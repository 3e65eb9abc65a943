package redo

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redo-go/redo/taxonomy"
)

// timeoutError makes ErrAttemptTimeout a net.Error that has timed out, which is how it is classified.
type timeoutError struct{}

func (timeoutError) Error() string   { return "redo: attempt timed out" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

// An attempt is one turn of the loop: one request, with its own context, headers and reader.
type attempt struct {
	number  int32
	conns   atomic.Int32 // connections that the request was given to be written to
	hops    int32        // redirects that were followed
	stopped bool         // the clock; the mutex guards it

	start   time.Time
	budget  time.Duration       // the time it has
	waited  time.Duration       // the wait before it
	ctx     context.Context     // the attempt itself, or what the observer made of it
	report  func(AttemptHealth) // the breaker's, nil when there is none
	timeout [1]string           // backs the budget header's value
	body    body

	parent context.Context
	mu     sync.Mutex // guards what follows
	over   *ending    // nil while it has not ended
	watch  *watch     // nil until somebody waits for the end
	trace  *httptrace.ClientTrace
}

// try makes an attempt and judges it.
func (k *call) try(a *attempt) {
	k.keyGone = false // a retry starts at the origin that the key is for
	retry := k.client.retry
	a.budget = min(retry.AttemptTimeout, retry.MaxElapsed-a.start.Sub(k.first.start))
	a.begin(k)
	a.ctx = a
	if o, ok := k.client.observer.(AttemptObserver); ok {
		a.ctx = o.StartAttempt(a, AttemptStart{Operation: k.op.name, Key: k.op.key, Number: int(a.number)})
	}
	if k.client.breaker != nil {
		defer a.tell(Neutral) // a transport that panics must not leave the breaker waiting for its probe
	}
	resp, err := k.exchange(a)
	if err != nil {
		resp, err = nil, a.explain(err)
	}
	k.judge(a, resp, err)
}

// tell reports to the breaker, once.
func (a *attempt) tell(h AttemptHealth) {
	if report := a.report; report != nil {
		a.report = nil
		report(h)
	}
}

// explain names the attempt's own timeout as the cause, where it is: net/http reports a bare deadline.
func (a *attempt) explain(err error) error {
	if err != nil && a.why() == ErrAttemptTimeout && !errors.Is(err, ErrAttemptTimeout) { //nolint:errorlint // the cause is set to this very value
		return errors.Join(ErrAttemptTimeout, err)
	}
	return err
}

// errNoResponse: a transport broke the rule of http.RoundTripper.
var errNoResponse = errors.New("redo: the transport returned neither a response nor an error")

// wireSends is how many connections the request was written to, as far as the transport tells.
func (a *attempt) wireSends() int { return int(a.conns.Load()) }

// sent reports whether the request's head was, or may have been, written. net/http's transport tells when it
// gives a request a connection. Of any other only an error that says that no connection was made is believed.
func (a *attempt) sent(traced bool, err error) bool {
	switch {
	case err == nil || a.wireSends() > 0:
		return true
	case traced:
		return false
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return false
	}
	if _, local := localVerdict(err); local {
		return false
	}
	_, unknownHost := errors.AsType[*net.DNSError](err)
	return !unknownHost
}

// exchange sends the attempt's request and follows the redirects that are ours to follow.
func (k *call) exchange(a *attempt) (*http.Response, error) {
	c := k.client
	if l := limiterFor(c.limiter, k.dest()); l != nil {
		if err := waitLimited(a.ctx, l); err != nil {
			if k.Err() == nil && !errors.Is(err, ErrLimited) {
				err = errors.Join(ErrLimited, err)
			}
			return nil, err
		}
	}
	if c.breaker != nil {
		done, err := c.breaker.Allow(k.dest().String())
		if err != nil {
			return nil, errors.Join(ErrBreakerOpen, err)
		}
		a.report = done
	}
	r := k.req.WithContext(a.ctx)
	r.Header = k.headers(a)
	if err := k.attachBody(r); err != nil {
		return nil, &refusedError{code: taxonomy.BodyNotReplayable, effect: NotApplied, err: err}
	}
	if err := k.authorize(r); err != nil {
		return nil, err
	}
	for hops := 0; ; hops++ {
		resp, err := c.base.RoundTrip(r)
		switch {
		case err != nil:
			return nil, err
		case resp == nil:
			return nil, errNoResponse
		case resp.Body == nil:
			resp.Body = http.NoBody
		}
		if resp.Request != r && (resp.Request == nil || callFrom(resp.Request.Context()) == nil) {
			resp.Request = r // a transport that forgot whose answer it is
		}
		next, err := k.follow(r, resp, hops)
		if err != nil || next == nil {
			return resp, err
		}
		r = next
		a.hops++
	}
}

// authorize lets the caller's function add credentials to the attempt.
func (k *call) authorize(r *http.Request) error {
	if k.client.credentials == nil {
		return nil
	}
	r.Header = r.Header.Clone() // the values are the caller's: Header.Add would write into them
	if err := k.client.credentials(r); err != nil {
		closeBody(r)
		return &refusedError{code: taxonomy.Auth + ".credentials", effect: NotApplied, err: err}
	}
	return nil
}

// attachBody gives the attempt's request a reader of its own. GetBody stays: net/http uses it when it resends
// the request on a fresh connection.
func (k *call) attachBody(r *http.Request) error {
	body, err := k.payload.next(k.req)
	if err != nil {
		return err
	}
	r.Body, r.GetBody, r.ContentLength = body, k.req.GetBody, k.req.ContentLength
	if k.payload.read {
		again, req := k.payload, k.req
		r.GetBody = func() (io.ReadCloser, error) { return again.next(req) }
		r.ContentLength = int64(len(again.bytes))
	}
	return nil
}

// headers returns the attempt's own header map. The values are shared with the caller's request and never
// written to.
func (k *call) headers(a *attempt) http.Header {
	c := k.client
	h := maps.Clone(k.req.Header)
	if h == nil {
		h = make(http.Header, 2)
	}
	if u := k.req.URL.User; u != nil && h.Get("Authorization") == "" {
		password, _ := u.Password()
		h.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+password)))
	}
	if k.op.key == "" {
		delete(h, c.profile.Header)
	} else {
		if a.number == 1 {
			k.keyLine[0] = c.profile.encode(k.op.key)
		}
		h[c.profile.Header] = k.keyLine[:]
	}
	if name := c.profile.TimeoutHeader; name != "" && k.req.Header[name] == nil {
		a.timeout[0] = c.budgetText(a.budget, k.req.Context())
		h[name] = a.timeout[:]
	}
	return h
}

// budgetText is the time that the client will still wait, in whole milliseconds.
func (c *Client) budgetText(budget time.Duration, caller context.Context) string {
	if deadline, ok := caller.Deadline(); ok {
		budget = min(budget, time.Until(deadline))
	}
	if budget == c.retry.AttemptTimeout {
		return c.firstBudget
	}
	return strconv.FormatInt(max(1, budget.Milliseconds()), 10)
}
