package outbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/taxonomy"
)

// maxDrain is how much of an answer is read so that its connection can be used again.
const maxDrain = 64 << 10

// HTTP returns a Publisher that sends each event as a POST to its Destination, through the client. Each delivery is one
// operation, named "event:" and the id. Its key is the event's id in every attempt, in the header that the client's
// profile names. It takes the place of a header of that name in the event. Responses from 200 to 299 acknowledge the
// event, and so does one that reports that it was applied before.
//
// The client retries as its own policy says within one of the relay's attempts. It needs no store: the queue is what
// survives a crash. A client that has one keeps an operation no longer than its profile's retention, which then has to be
// longer than the relay's schedule. To sign deliveries, give the client the transport of a webhook.Signer; an event that it
// refuses to sign is a dead letter at once:
//
//	client, err := redo.New(redo.WithTransport(signer.Transport(nil)), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}))
//	publisher, err := outbox.HTTP(client)
//
// One attempt is enough for the client, since the relay repeats. If the client's profile sends keys in another header
// than Idempotency-Key, the signer needs its name too: see webhook.KeyHeader.
//
// The client stays the caller's to close, after the relay has ended.
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

// An HTTPOption changes what [HTTP] returns.
type HTTPOption interface{ applyHTTP(*httpPublisher) error }

type httpOption func(*httpPublisher) error

func (f httpOption) applyHTTP(p *httpPublisher) error { return f(p) }

// Resolve finds an event's URL by f, for events whose Destination is a name of their own or empty. It is asked before each
// attempt, so that a corrected URL counts for what is still waiting. Its error makes the attempt fail as any error of a
// Publisher does.
func Resolve(f func(Event) (string, error)) HTTPOption {
	return httpOption(func(p *httpPublisher) error {
		if f == nil {
			return errors.New("outbox: Resolve: the function is nil")
		}
		p.resolve = f
		return nil
	})
}

// RetryRefused retries a refusal (400 to 499) as it retries what fails. It is for destinations whose 401 or 404 tells
// of their own configuration more often than of the event: without it an event becomes a dead letter at the first one, and
// has to be redriven. With it an event that is really wrong holds up its ordering key for the whole schedule. 410 stays
// final, and so do an id that was used for another payload, redirects, and what was never sent.
func RetryRefused() HTTPOption {
	return httpOption(func(p *httpPublisher) error {
		p.retryRefused = true
		return nil
	})
}

type httpPublisher struct {
	client       *redo.Client
	resolve      func(Event) (string, error)
	retryRefused bool
}

// Publish implements [Publisher].
func (p *httpPublisher) Publish(ctx context.Context, ev Event) error {
	target, err := p.resolve(ev)
	if err != nil {
		return err
	}
	ctx = redo.WithKey(redo.WithOperation(ctx, "event:"+ev.ID), ev.ID)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(ev.Payload))
	if err != nil {
		// The URL itself stays out of the text: it may hold a password and a query.
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		return fmt.Errorf("outbox: the destination is no URL: %w: %w", err, taxonomy.BadURL)
	}
	if ev.Header != nil {
		req.Header = ev.Header.Clone()
	}
	resp, err := p.client.Do(req)
	if err != nil {
		if p.retryRefused && refuses(err) {
			return &refusal{err}
		}
		return err
	}
	_, _ = io.CopyN(io.Discard, resp.Body, maxDrain)
	_ = resp.Body.Close()
	if resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("outbox: the destination answered with a redirect (status %d): %w", resp.StatusCode, taxonomy.TooManyRedirects)
	}
	return nil
}

// refuses reports whether the destination said no to the event, in a way that it may take back.
func refuses(err error) bool {
	e, ok := errors.AsType[*redo.Error](err)
	return ok && e.StatusCode >= http.StatusBadRequest && e.StatusCode < http.StatusInternalServerError &&
		e.StatusCode != http.StatusGone && !e.Code.In(taxonomy.PayloadMismatch)
}

// A refusal is retried, whatever its code says.
type refusal struct{ error }

func (r *refusal) Unwrap() error { return r.error }
