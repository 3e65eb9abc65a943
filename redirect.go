package redo

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/redo-go/redo/taxonomy"
)

const (
	maxRedirects    = 10
	maxRedirectBody = 2 << 10 // what is read of a redirect's body, so that its connection can be used again
)

// follow returns the request that a redirect asks for, or nil when the answer is the caller's.
//
// 307 and 308 repeat the request as it is (RFC 9110 §15.4.8, §15.4.9): on the same origin with its key, and on
// another origin without the key and without credentials, as both belong to the origin that they were made
// for. 301, 302 and 303 answer a POST with something to look at, which is the caller's business. Under
// Transport all but 307 and 308 on the same origin is left to the http.Client above.
func (k *call) follow(r *http.Request, resp *http.Response, hops int) (*http.Request, error) {
	switch resp.StatusCode {
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther:
		if !safeMethod(r.Method) || k.mode == modeTransport {
			return nil, nil
		}
	default:
		return nil, nil
	}
	location := resp.Header.Get("Location")
	if location == "" {
		return nil, nil
	}
	to, err := r.URL.Parse(location)
	if err != nil {
		return nil, k.refuse(resp, taxonomy.BadURL, fmt.Errorf("redo: the answer %d has a Location that is no URL", resp.StatusCode))
	}
	same := sameOrigin(r.URL, to)
	if k.mode == modeTransport && (!same || safeMethod(r.Method)) {
		return nil, nil
	}
	if !k.payload.replayable(k.req) {
		return nil, nil
	}
	if hops >= maxRedirects {
		return nil, k.refuse(resp, taxonomy.TooManyRedirects, fmt.Errorf("redo: stopped after %d redirects", maxRedirects))
	}
	if to.Scheme != "http" && to.Scheme != "https" || to.Host == "" {
		return nil, k.refuse(resp, taxonomy.BadURL, fmt.Errorf("redo: the answer %d redirects to the scheme %q", resp.StatusCode, to.Scheme))
	}
	discard(resp)
	next := r.WithContext(r.Context())
	next.URL, next.Host, next.Response = to, "", resp
	next.Header = maps.Clone(r.Header)
	if !same {
		k.keyGone = k.keyGone || k.op.key != ""
		delete(next.Header, k.client.profile.Header)
		for name := range next.Header {
			if secretHeader(name) {
				delete(next.Header, name)
			}
		}
	}
	if err := k.attachBody(next); err != nil {
		return nil, &refusedError{code: taxonomy.BodyNotReplayable, err: err}
	}
	return next, nil
}

// refuse ends an attempt over a redirect that can't be followed. The server answered with a redirect instead of
// doing the work.
func (k *call) refuse(resp *http.Response, code taxonomy.Code, err error) error {
	discard(resp)
	return &refusedError{code: code, effect: NotApplied, err: err}
}

func discard(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, maxRedirectBody)
	_ = resp.Body.Close()
}

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}
