package redo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/redo-go/redo/internal/decision"
	"github.com/redo-go/redo/internal/exchange"
	"github.com/redo-go/redo/internal/flight"
	"github.com/redo-go/redo/internal/journal"
	"github.com/redo-go/redo/internal/null"
	"github.com/redo-go/redo/limit"
)

// A Client makes HTTP calls that are safe to repeat. It is safe for concurrent use. It keeps connections alive, so
// make one and share it. Make it with [New]; the zero Client is not valid.
type Client struct {
	config
	http      *http.Client      // under go-retryablehttp's loop; its transport is an attemptTransport
	base      http.RoundTripper // sends the attempts
	ownBase   *http.Transport   // nil if the caller supplied the transport
	traced    bool              // base reports its connections to net/http/httptrace
	buckets   *limit.Buckets
	journal   journal.Journal // of the client's store; its Store is nil if there is none
	meaning   journal.Rules   // for the headers that are stored
	flights   flight.Group[landing]
	retention decision.Retention // of keys at the API
	life      context.Context    // until Close
	end       context.CancelFunc
}

// New returns a client. Without options it makes a time-ordered key for each POST and PATCH of [Client.Do] and
// [Call], retries on the default schedule, and stores nothing. If an option is invalid, New returns an error that
// names the setting and the refused value.
func New(opts ...Option) (*Client, error) {
	c := &Client{config: config{
		scope:       "redo",
		keep:        30 * 24 * time.Hour,
		maxStored:   64 << 10,
		maxResponse: 16 << 20,
		maxBuffered: 1 << 20,
		keys:        TimeOrderedKeys,
		profile:     RedoProfile(),
	}}
	for _, o := range opts {
		if o == nil {
			return nil, errors.New("redo: New: an option is nil")
		}
		if err := o.apply(&c.config); err != nil {
			return nil, err
		}
	}
	c.profile = c.profile.withDefaults()
	if !c.ownKeys && !c.profile.NoKeys && c.profile.MaxKey < uuidLength {
		return nil, fmt.Errorf("redo: New: profile %q takes keys of at most %d characters, and a time-ordered key "+
			"has %d: make shorter ones with WithKeys", c.profile.Name, c.profile.MaxKey, uuidLength)
	}
	c.retry = c.retry.withDefaults()
	c.buckets = limit.NewBuckets(c.budget)
	c.retention.Know(c.profile.Retention)
	p := &c.profile
	own := []string{p.Header, p.TimeoutHeader, p.FirstSentHeader}
	c.meaning = journal.Rules{Stored: p.StoredHeaders, Own: own, Keep: p.KeepHeaders, Any: p.AnyHeaders}
	c.journal = journal.Journal{Store: c.store, Scope: c.scope, Keep: c.keep}
	if c.base = c.transport; c.base == nil {
		if c.base = http.DefaultTransport; null.Is(c.base) {
			return nil, errors.New("redo: New: http.DefaultTransport is nil: use WithTransport")
		}
		if t, ok := c.base.(*http.Transport); ok { // a program may have replaced it
			c.ownBase = exchange.OwnTransport(t)
			c.base = c.ownBase
		}
	}
	_, c.traced = c.base.(*http.Transport)
	c.http = &http.Client{
		Transport:     attemptTransport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	c.life, c.end = context.WithCancel(context.Background())
	return c, nil
}

// Do sends the request like http.Client.Do, but it retries under one Idempotency-Key. It returns an [*Error] for
// every failure, and for every status of 400 and above. Use [Client.Transport] under an SDK that expects net/http's
// semantics.
//
// If the request's context names an operation and the client has a store, the stored state decides:
//
//   - A new operation is written durably before the first byte is sent.
//   - A pending one continues under its key.
//   - A complete one returns its stored response.
//   - A failed one starts anew, with a new key.
//
// If a pending or complete operation has another payload, the call fails with taxonomy.PayloadMismatch and sends
// nothing. Concurrent calls of one operation share one flight: one of them sends, and the others wait for it.
//
// Do follows the redirects of safe requests. For other requests it follows only 307 and 308 on the same origin, with
// the same key. A 307 or 308 of such a request to another origin is an error. Any other redirect is returned as the
// response, and the operation stays pending.
//
// The caller must close the response's body. Do does not change the request, and always closes its body. It buffers a
// body without Request.GetBody, up to [WithMaxBufferedBody].
func (c *Client) Do(req *http.Request) (*http.Response, error) {
	resp, e := c.perform(req, modeDo)
	if e != nil {
		return nil, e
	}
	return resp, nil
}

// Close makes further calls fail with [ErrClosed], and closes the idle connections that the client opened itself. Calls
// under way continue. The store stays open: the caller closes it. Close may be called more than once. It returns nil.
func (c *Client) Close() error {
	c.end()
	roundTripper{c}.CloseIdleConnections()
	return nil
}

// KeyHeader returns the name of the request header that carries the key, as the client's profile sets it.
func (c *Client) KeyHeader() string { return c.profile.Header }

// Profile returns the client's profile, with its defaults. Do not change its slices and maps.
func (c *Client) Profile() Profile { return c.profile }
