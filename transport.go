package redo

import "net/http"

// Transport returns the client as a RoundTripper for an http.Client or another SDK. It is safe for concurrent use. It
// has net/http's semantics: it returns a response of any status without an error. It does not change the request, and
// always closes its body. The http.Client above follows redirects, with two exceptions for unsafe requests with a
// key. A 307 or 308 on the same origin is followed with the same key. A 307 or 308 to another origin is an error.
//
// The request's context names the operation, as for [Client.Do]. The operation's key replaces the key that an SDK
// sets for each call. An unsafe request without a name gets no key and redo sends it once, unless [WithKeys] or
// [WithProfile] declares that the server honours keys. A body that is a stream of gRPC or Connect gets none.
//
// The SDK sets the time limits. No attempt is cut, and RetryPolicy.MaxElapsed bounds when another attempt may start. If
// no response was received, the error is an [*Error]. [WithReport] shows redo's own error and the attempts of a call.
func (c *Client) Transport() http.RoundTripper { return roundTripper{c} }

type roundTripper struct{ client *Client }

// RoundTrip implements http.RoundTripper.
func (t roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, e := t.client.perform(req, modeTransport)
	if e != nil && (resp == nil || resp.StatusCode < http.StatusBadRequest && !e.whole) {
		return nil, e // no response, a success whose body broke off, or a refused redirect
	}
	return resp, nil
}

// CloseIdleConnections closes the idle connections that the client opened itself. http.Client.CloseIdleConnections
// calls it.
func (t roundTripper) CloseIdleConnections() {
	if t.client.ownBase != nil {
		t.client.ownBase.CloseIdleConnections()
	}
}
