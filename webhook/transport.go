package webhook

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/redo-go/redo/internal/wire"
)

// Transport returns a RoundTripper that signs each request and sends it through base. A nil base is a new [Transport]
// without options: it refuses special-use addresses and ignores proxies. Put it where attempts are made, so that each
// retry has its own timestamp:
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
// A request with neither header is not sent, since a new id would make it another event for its consumer. A request
// whose id [Signer.Sign] refuses is not sent either.
//
// The body is read into memory, up to [MaxBody] bytes, and is always closed. The request itself is not changed. A
// request that a redirect led to another host is not signed and not sent. The specification counts a redirect as a
// failure, and a signature is for the one endpoint that shares the secret.
//
// The transport's own errors mean that nothing was sent. They match an error of [Signer.SignRequest], ErrBody or
// ErrRedirected. They also match [SigningUnavailable] if the secrets or a KeySigner can't be reached. All others except
// ErrBody match [Unsigned], and the redo client does not retry them.
func (s *Signer) Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = new(Dialer).transport()
	}
	return &signingTransport{signer: s, base: base}
}

type signingTransport struct {
	signer *Signer
	base   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *signingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	signed, err := t.prepare(r)
	if r.Body != nil {
		_ = r.Body.Close() // it was read whole, or is not needed
	}
	if err != nil {
		return nil, unsent(err)
	}
	return t.base.RoundTrip(signed)
}

// CloseIdleConnections closes the idle connections of base. http.Client.CloseIdleConnections calls it.
func (t *signingTransport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// prepare returns the signed copy of the request.
func (t *signingTransport) prepare(r *http.Request) (*http.Request, error) {
	if from := origin(r); from != nil && (from.URL.Host != r.URL.Host || from.URL.Scheme != r.URL.Scheme) {
		return nil, fmt.Errorf("%w: from %s to %s", ErrRedirected, from.URL.Host, r.URL.Host)
	}
	id, err := t.signer.idOf(r.Header)
	if err != nil {
		return nil, err
	}
	body, err := readBody(r, t.signer.maxBody)
	if err != nil {
		return nil, err
	}
	signed := r.WithContext(r.Context())
	signed.Header = r.Header.Clone()
	signed.ContentLength, signed.TransferEncoding = int64(len(body)), nil
	signed.Body = again(body)
	signed.GetBody = func() (io.ReadCloser, error) { return again(body), nil }
	if err := t.signer.SignRequest(signed, id, t.signer.now(), body); err != nil {
		return nil, err
	}
	return signed, nil
}

// unsent adds the code to an error of prepare, and the proof that nothing was sent. The redo client takes a failed
// dial as that proof, whichever transport reports it.
func unsent(err error) error {
	dial := &net.OpError{Op: "dial", Err: err}
	switch {
	case errors.Is(err, ErrBody):
		return &unsentError{err, []error{err, dial}}
	case errors.Is(err, ErrSecretsUnavailable) && !errors.Is(err, ErrSecret):
		return &unsentError{err, []error{SigningUnavailable, err, dial}}
	}
	return &unsentError{err, []error{Unsigned, err, dial}}
}

// An unsentError has the text of its error. The code comes first in its tree, before a code of the caller's function.
type unsentError struct {
	error
	tree []error
}

// Unwrap returns the code, the error and the failed dial.
func (u *unsentError) Unwrap() []error { return u.tree }

// origin returns the request that the chain of redirects to r began with, and nil if r is that request.
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
