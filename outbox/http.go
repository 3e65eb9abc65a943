package outbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/taxonomy"
	"github.com/redo-go/redo/webhook"
)

// An acknowledged response is read to make its connection reusable, as far as that is worth it.
const (
	maxDrain  = 64 << 10
	drainTime = 500 * time.Millisecond
)

// HeaderType is the request header with the event's Type. An event can't set it.
const HeaderType = "Event-Type"

// userAgent names the relay if the event sets no User-Agent.
const userAgent = "redo-outbox (+https://github.com/redo-go/redo)"

// HTTP returns a Publisher that sends each event as a POST to its Destination, through the client. Each delivery
// is one operation, named "event:", the id and a hash of the URL. Its key is the event's id in every attempt, in the
// header that the client's profile names. It replaces a header of that name in the event. Content-Type is
// application/json unless the event sets it. [HeaderType] is the event's Type, if it has one.
//
// A response from 200 to 299 acknowledges the event. So does a response which reports that the event was applied
// before. After any other response the event is retried, and 410 disables the destination. No redirect is
// followed, because it would send the event to an unconfigured address.
//
// The client makes one attempt for each attempt of the relay, whose [AttemptTimeout] is the only time limit. The
// client's retry policy is not used. A client needs no store, because the queue survives a crash. If it has one,
// its profile's retention must be longer than the relay's schedule.
//
// Give the client the transport of a webhook.Signer to sign deliveries. By default it refuses to connect to
// loopback, private and other special-use addresses. A custom transport under it needs a webhook.Dialer for that:
//
//	client, err := redo.New(redo.WithTransport(signer.Transport(nil)))
//	publisher, err := outbox.HTTP(client)
//
// An event that can't be signed becomes a dead letter immediately. So does one whose destination is not a URL that
// the client can use. If the client's profile sends keys in another header than Idempotency-Key, the signer needs its
// name too: see webhook.KeyHeader.
//
// The caller closes the client after the relay has ended.
func HTTP(client *redo.Client, opts ...HTTPOption) (Publisher, error) {
	if client == nil {
		return nil, errors.New("outbox: HTTP: the client is nil")
	}
	p := &httpPublisher{client: client, resolve: func(ev Event) (string, error) { return ev.Destination, nil }}
	for _, o := range opts {
		if o == nil {
			return nil, errors.New("outbox: HTTP: an option is nil")
		}
		if err := o.applyHTTP(p); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// HTTPOption changes the publisher that [HTTP] returns.
type HTTPOption interface{ applyHTTP(*httpPublisher) error }

type httpOption func(*httpPublisher) error

func (f httpOption) applyHTTP(p *httpPublisher) error { return f(p) }

// Resolve finds an event's URL by f, for events whose Destination is a name. f is called before each attempt. So a
// corrected URL applies to waiting events too. An error of f fails the attempt like any error of a Publisher.
//
// The relay is fair between values of Destination. Events for different URLs need different names.
func Resolve(f func(Event) (string, error)) HTTPOption {
	return httpOption(func(p *httpPublisher) error {
		if f == nil {
			return errors.New("outbox: Resolve: the function is nil")
		}
		p.resolve = f
		return nil
	})
}

type httpPublisher struct {
	client  *redo.Client
	resolve func(Event) (string, error)
}

// onlyOne leaves retries and time limits to the relay.
var onlyOne = redo.RetryPolicy{MaxAttempts: 1, MaxElapsed: maxWait}

// Publish implements [Publisher].
func (p *httpPublisher) Publish(ctx context.Context, ev Event) error {
	target, err := p.resolve(ev)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(redo.WithoutRedirects(redo.WithPolicy(ctx, onlyOne)))
	defer cancel()
	ctx = redo.WithKey(redo.WithOperation(ctx, operationName(ev.ID, target)), ev.ID)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(ev.Payload))
	if err != nil {
		// The parser's error may quote a part of a password.
		return Reject(fmt.Errorf("outbox: the destination is no URL: %w", taxonomy.BadURL))
	}
	req.Header = headerOf(ev)
	var wire connections
	resp, err := p.client.Do(req.WithContext(wire.trace(ctx)))
	switch {
	case errors.Is(err, webhook.Unsigned):
		return Reject(err)
	case err != nil && wire.none():
		return NotSent(err)
	case err != nil:
		return err
	}
	defer resp.Body.Close()
	switch status := resp.StatusCode; {
	case status/100 == 2:
		stop := time.AfterFunc(drainTime, cancel)
		defer stop.Stop()
		_, _ = io.CopyN(io.Discard, resp.Body, maxDrain)
		return nil
	case status < http.StatusOK:
		// The body is not read. With a 101 it is the connection, which the attempt's timeout does not end.
		return &statusError{
			status: status, code: taxonomy.Transient,
			text: fmt.Sprintf("outbox: the response (status %d) is no 2xx, and acknowledges nothing", status),
		}
	}
	return &statusError{
		status: resp.StatusCode, head: headOf(resp.Body), code: taxonomy.RedirectNotFollowed,
		text: fmt.Sprintf("outbox: the response (status %d) is a redirect, which is not followed", resp.StatusCode),
	}
}

// operationName differs for two URLs, because an event may have several destinations. A client with a store refuses a
// name that it knows with another URL.
func operationName(id, target string) string {
	sum := sha256.Sum256([]byte(target))
	return "event:" + id + ":" + hex.EncodeToString(sum[:8])
}

// connections counts the connections of one attempt. It also counts those of a transport below a signer's.
type connections struct{ asked, got atomic.Int32 }

func (c *connections) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { c.asked.Add(1) },
		GotConn: func(httptrace.GotConnInfo) { c.got.Add(1) },
	})
}

// none reports whether the attempt requested a connection and got none.
func (c *connections) none() bool { return c.asked.Load() > 0 && c.got.Load() == 0 }

func headerOf(ev Event) http.Header {
	h := http.Header{"Content-Type": {"application/json"}, "User-Agent": {userAgent}}
	for name, values := range ev.Header {
		h[name] = append([]string(nil), values...)
	}
	if ev.Type != "" {
		h.Set(HeaderType, ev.Type)
	}
	return h
}
