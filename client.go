package redo

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// A Client makes HTTP calls that are safe to repeat. It is safe for concurrent use, keeps connections alive
// and is meant to be made once. Make one with [New].
type Client struct {
	config
	base        http.RoundTripper
	ownBase     *http.Transport // nil when the caller brought the transport
	traced      bool            // base reports wire sends
	buckets     *buckets
	statusCodes map[int]taxonomy.Code
	firstBudget string // the timeout header of a first attempt without a deadline of the caller's
	closed      atomic.Bool
}

// New returns a client. With no options it makes a time-ordered key for each POST and PATCH, retries on the
// default schedule, and keeps nothing. It returns an error that names the option and the value it refuses.
func New(opts ...Option) (*Client, error) {
	c := &Client{config: config{
		scope:   "redo",
		keep:    30 * 24 * time.Hour,
		maxBody: 64 << 10,
		keys:    TimeOrderedKeys,
		profile: RedoProfile(),
	}}
	for _, o := range opts {
		if o == nil {
			return nil, errors.New("redo: New: an option is nil")
		}
		if err := o.apply(&c.config); err != nil {
			return nil, err
		}
	}
	if !c.ownKeys && c.profile.MaxKey < uuidLength {
		return nil, fmt.Errorf("redo: New: profile %q takes keys of at most %d characters, and a time-ordered key has %d: make shorter ones with WithKeys", c.profile.Name, c.profile.MaxKey, uuidLength)
	}
	c.retry = c.retry.withDefaults()
	c.profile.Header = http.CanonicalHeaderKey(c.profile.Header)
	c.profile.TimeoutHeader = http.CanonicalHeaderKey(c.profile.TimeoutHeader)
	c.statusCodes = c.profile.statusCodes()
	c.buckets = newBuckets(c.budget)
	c.firstBudget = strconv.FormatInt(max(1, c.retry.AttemptTimeout.Milliseconds()), 10)
	if c.base = c.transport; c.base == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConnsPerHost = 64 // the default of 2 makes a client of one provider reconnect all the time
		c.base, c.ownBase = t, t
	}
	_, c.traced = c.base.(*http.Transport)
	return c, nil
}

// Do sends the request, retries it under one key as the policy says, and returns the first answer below 400. For
// any other answer and any failure it returns an [*Error], which holds the last answer.
//
// If the request's context names an operation and the client has a store, the operation runs through its
// states: a new one is written durably before the first byte is sent, a pending one continues under its key, a
// completed one is answered from the store, and a call with another payload fails with
// taxonomy.PayloadMismatch without anything being sent.
//
// The response's body must be closed, as with net/http. The request is not changed and its body is always
// closed. A body without Request.GetBody can't be repeated: it is refused for an operation that is stored, and
// otherwise sent once.
func (c *Client) Do(req *http.Request) (*http.Response, error) {
	resp, e := c.perform(req, modeDo)
	if e != nil {
		return nil, e
	}
	return resp, nil
}

// Close refuses further calls and closes idle connections that the client opened itself. Calls under way go on.
// The store stays open: whoever opened it closes it. Close may be called more than once.
func (c *Client) Close() error {
	c.closed.Store(true)
	if c.ownBase != nil {
		c.ownBase.CloseIdleConnections()
	}
	return nil
}

// check refuses requests that can't be sent at all.
func (c *Client) check(req *http.Request) *Error {
	bad := func(code taxonomy.Code, err error) *Error { return &Error{Code: code, Effect: NotApplied, Err: err} }
	switch {
	case c.closed.Load():
		return bad(taxonomy.ClientClosed, ErrClosed)
	case req == nil:
		return bad(taxonomy.InvalidRequest, errors.New("redo: the request is nil"))
	case req.URL == nil:
		return bad(taxonomy.InvalidRequest, errors.New("redo: the request's URL is nil"))
	case req.RequestURI != "":
		return bad(taxonomy.InvalidRequest, errors.New("redo: the request's RequestURI is set: it is a server's request"))
	case req.URL.Scheme != "http" && req.URL.Scheme != "https":
		return bad(taxonomy.BadURL, fmt.Errorf("redo: the URL's scheme is %q, it must be http or https", req.URL.Scheme))
	case req.URL.Host == "":
		return bad(taxonomy.BadURL, errors.New("redo: the URL has no host"))
	}
	return nil
}

// storeError is a call that ended because the store could not be read or written. Nothing was sent by this
// call; an earlier one may have sent the operation, which only the store knows.
func storeError(op operation, err error) *Error {
	code := taxonomy.Unavailable
	if errors.Is(err, store.ErrInvalid) {
		code = taxonomy.InvalidOperation
	}
	return &Error{Code: code, Operation: op.name, Err: err, sameKey: true, retry: code == taxonomy.Unavailable}
}
