package redo

import "net/http"

// Transport returns the client as a RoundTripper, to be put under an http.Client or another SDK. It has
// net/http's semantics: any answer that was received is returned without an error, whatever its status; the
// request is not changed, and its body is always closed; redirects are left to the http.Client above, save that
// 307 and 308 on the same origin are followed with the same key.
//
// Operations are named as for [Client.Do], through the request's context. When nothing was received the error
// is an [*Error].
func (c *Client) Transport() http.RoundTripper { return roundTripper{c} }

type roundTripper struct{ client *Client }

func (t roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, e := t.client.perform(req, modeTransport)
	if e != nil && (resp == nil || resp.StatusCode < http.StatusBadRequest) {
		return nil, e // nothing was received, or a success that broke off before its end
	}
	return resp, nil
}

// CloseIdleConnections closes the idle connections that the client opened itself. It is what
// http.Client.CloseIdleConnections looks for.
func (t roundTripper) CloseIdleConnections() {
	if t.client.ownBase != nil {
		t.client.ownBase.CloseIdleConnections()
	}
}
