package webhook

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

// Unsigned: a request can't be signed as it is, so that it is not sent, nor worth a retry.
const Unsigned taxonomy.Code = "CONFIGURATION.unsigned"

// Transport returns a RoundTripper that signs each request and hands it to base; a nil base is http.DefaultTransport. Put
// it where attempts are made, so that each retry has its own timestamp:
//
//	client, err := redo.New(redo.WithTransport(signer.Transport(nil)))
//
// The id is the request's webhook-id if it has one. Otherwise the id is the request's Idempotency-Key, which the redo
// client sends unchanged with all attempts. If the client's profile sends its keys in another header, give the signer
// the same name with [KeyHeader]:
//
//	signer, err := webhook.NewSigner(secrets, webhook.KeyHeader(profile.Header))
//	client, err := redo.New(redo.WithProfile(profile), redo.WithTransport(signer.Transport(nil)))
//
// A request with neither header is not sent: under a new id it would be another event for its consumer. Nor is a
// request sent whose id [Signer.Sign] refuses.
//
// The body is read into memory, at most [MaxBody] bytes of it, since what is signed has to be what is sent; it is always
// closed. The request itself is not changed. A request that a redirect led to another host is not signed and not sent:
// the specification counts a redirect as a failure, and a signature is for the one endpoint that shares the secret.
//
// Errors of its own come before anything is sent. They match what Sign returns, ErrTooLarge, ErrBody or ErrRedirected, and
// all but ErrBody match [Unsigned] too: the redo client retries none of those.
func (s *Signer) Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &transport{signer: s, base: base}
}

type transport struct {
	signer *Signer
	base   http.RoundTripper
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	signed, err := t.prepare(r)
	if r.Body != nil {
		_ = r.Body.Close() // it was read whole, or is not wanted
	}
	if err != nil {
		return nil, err
	}
	return t.base.RoundTrip(signed)
}

// CloseIdleConnections closes the idle connections of the transport below. It is what http.Client.CloseIdleConnections
// looks for.
func (t *transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// prepare returns the request as it is to be sent.
func (t *transport) prepare(r *http.Request) (*http.Request, error) {
	if from := origin(r); from != nil && (from.URL.Host != r.URL.Host || from.URL.Scheme != r.URL.Scheme) {
		return nil, unsigned(fmt.Errorf("%w: from %s to %s", ErrRedirected, from.URL.Host, r.URL.Host))
	}
	id, err := t.signer.idOf(r.Header)
	if err != nil {
		return nil, unsigned(err)
	}
	body, err := readBody(r, t.signer.maxBody)
	switch {
	case errors.Is(err, ErrTooLarge):
		return nil, unsigned(err)
	case err != nil:
		return nil, err
	}
	signed := r.WithContext(r.Context())
	if signed.Header = r.Header.Clone(); signed.Header == nil {
		signed.Header = http.Header{}
	}
	if err := t.signer.SetHeader(signed.Header, id, t.signer.now(), body); err != nil {
		return nil, unsigned(err)
	}
	signed.ContentLength, signed.TransferEncoding = int64(len(body)), nil
	signed.Body = again(body)
	signed.GetBody = func() (io.ReadCloser, error) { return again(body), nil }
	return signed, nil
}

func unsigned(err error) error { return &unsignable{err} }

// An unsignable request's error also is Unsigned, which says no more in a text.
type unsignable struct{ error }

func (u *unsignable) Unwrap() []error { return []error{u.error, Unsigned} }

// origin returns the request that the chain of redirects to r began with, nil when r is that one.
func origin(r *http.Request) *http.Request {
	var first *http.Request
	for r.Response != nil && r.Response.Request != nil {
		r = r.Response.Request
		first = r
	}
	return first
}

// idOf returns the event's id.
func (s *Signer) idOf(h http.Header) (string, error) {
	if len(h[keyID]) > 0 {
		return single(h, keyID, HeaderID)
	}
	key, err := wire.ParseKey(h.Values(s.keyHeader))
	switch {
	case errors.Is(err, wire.ErrKeyMissing):
		return "", wrong(HeaderID, ErrMissing, "there is no "+s.keyHeader+" either")
	case err != nil:
		return "", wrong(HeaderID, ErrMalformed, "it is the value of "+s.keyHeader+", which is not one valid key")
	}
	return key, nil
}
