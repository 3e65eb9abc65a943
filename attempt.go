package redo

import (
	"context"
	"encoding/base64"
	"errors"
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
	number  int
	start   time.Time
	budget  time.Duration       // the time it has
	waited  time.Duration       // the wait before it
	ctx     context.Context     // the attempt itself, or what the observer made of it
	report  func(AttemptHealth) // the breaker's, nil when there is none
	timeout [1]string           // backs the budget header's value
	body    body
	conns   atomic.Int32 // connections that the request was given to be written to
	hops    int          // redirects that were followed

	parent   context.Context
	deadline time.Time
	timer    *time.Timer
	unlink   func() bool // from the parent

	mu    sync.Mutex
	done  chan struct{}
	err   error
	cause error
	after []*func()
	trace *httptrace.ClientTrace
}

// attemptTransport is the shared http.Client's transport. It finds the call in the request's context and makes
// the attempt on its behalf. It has no CloseIdleConnections on purpose: the loop calls that on every failure,
// and would empty the pool that all calls share.
type attemptTransport struct{}

func (attemptTransport) RoundTrip(shell *http.Request) (*http.Response, error) {
	return callFrom(shell.Context()).attempt(shell)
}

// open begins an attempt and gives the loop its request: one without headers and body, which attempt fills in.
// So nothing is read into memory, and nothing is shared between attempts.
func (k *call) open(a *attempt) {
	k.current = a
	k.keyGone = false // a retry starts at the origin that the key is for
	a.budget = min(k.client.retry.AttemptTimeout, k.client.retry.MaxElapsed-a.start.Sub(k.start))
	a.begin(&k.ctx)
	a.ctx = a
	if o, ok := k.client.observer.(AttemptObserver); ok {
		a.ctx = o.StartAttempt(a, AttemptStart{Operation: k.op.name, Key: k.op.key, Number: a.number})
	}
	k.loopReq.Request = k.shell(a.ctx)
}

// shell is the request as the loop and http.Client see it. They never write to it: net/http copies a request's
// headers before it adds to them, and adds only what a user in the URL or a cookie jar asks for.
func (k *call) shell(ctx context.Context) *http.Request {
	r := k.req.WithContext(ctx)
	r.Header = noHeader
	r.Body, r.GetBody, r.ContentLength = nil, nil, 0
	return r
}

var noHeader = http.Header{}

// attempt makes the present attempt.
func (k *call) attempt(shell *http.Request) (*http.Response, error) {
	resp, err := k.exchange(k.current, shell)
	if err != nil {
		return nil, k.current.explain(err)
	}
	if resp.StatusCode/100 == 3 && resp.Header["Location"] != nil {
		// Of a redirect that was not followed here http.Client would parse the Location, and ask for the next
		// request's body, before it lets itself be told not to follow. It does neither without one.
		k.header = resp.Header
		resp.Header = maps.Clone(resp.Header)
		delete(resp.Header, "Location")
	}
	return resp, nil
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
func (k *call) exchange(a *attempt, shell *http.Request) (*http.Response, error) {
	c := k.client
	if l := limiterFor(c.limiter, k.dest); l != nil {
		if err := waitLimited(a.ctx, l); err != nil {
			if k.ctx.Err() == nil && !errors.Is(err, ErrLimited) {
				err = errors.Join(ErrLimited, err)
			}
			return nil, err
		}
	}
	if c.breaker != nil {
		done, err := c.breaker.Allow(k.dest.String())
		if err != nil {
			return nil, errors.Join(ErrBreakerOpen, err)
		}
		a.report = done
	}
	r := shell
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
		if resp.Request == nil || callFrom(resp.Request.Context()) == nil {
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
	body, err := k.payload.next()
	if err != nil {
		return err
	}
	r.Body, r.GetBody, r.ContentLength = body, k.req.GetBody, k.req.ContentLength
	if k.payload.read {
		again := k.payload
		r.GetBody = again.next
		r.ContentLength = int64(len(again.bytes))
	}
	return nil
}

// headers returns the attempt's own header map. The values are shared with the caller's request and never
// written to.
func (k *call) headers(a *attempt) http.Header {
	c := k.client
	h := make(http.Header, len(k.req.Header)+2)
	maps.Copy(h, k.req.Header)
	if u := k.req.URL.User; u != nil && h.Get("Authorization") == "" {
		password, _ := u.Password()
		h.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+password)))
	}
	delete(h, c.profile.Header)
	if k.op.key != "" {
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
