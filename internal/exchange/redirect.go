package exchange

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

const (
	maxRedirects    = 10
	maxRedirectBody = 2 << 10 // bytes of a redirect's body that are read, so that its connection can be used again
)

// crossOrigin lists the headers that a safe request keeps when a redirect leads to another origin.
var crossOrigin = []string{
	"Accept", "Accept-Encoding", "Accept-Language", "Content-Type", "Content-Encoding", "User-Agent",
}

// follow returns the next request of a redirect. It returns nil if the redirect is returned to the caller.
//
// 307 and 308 repeat the request (RFC 9110 §15.4.8, §15.4.9), on the same origin with its key. A keyed request that is
// not safe is never repeated at another origin. The key means nothing there, so the effect could occur twice. A 301,
// 302 or 303 on a request that is not safe is returned.
func (x *Exchange) follow(r *http.Request, resp *http.Response) (*http.Request, error) {
	safe := wire.SafeMethod(r.Method)
	switch resp.StatusCode {
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther:
		if !safe {
			return nil, nil
		}
	default:
		return nil, nil
	}
	location := resp.Header.Get("Location")
	if location == "" || x.NoRedirects || x.Outer && (safe || !x.Keyed) {
		return nil, nil
	}
	to, err := r.URL.Parse(location)
	valid := err == nil && (to.Scheme == "http" || to.Scheme == "https") && to.Host != ""
	switch {
	case !valid && x.Outer:
		return nil, nil
	case err != nil:
		return nil, refuse(resp, taxonomy.BadURL, "redo: the Location of the response (status %d) is no URL",
			resp.StatusCode)
	case !valid:
		return nil, refuse(resp, taxonomy.BadURL, "redo: status %d redirects to the scheme %q",
			resp.StatusCode, to.Scheme)
	}
	same := wire.SameOrigin(r.URL, to)
	switch {
	case !same && !safe:
		return nil, refuse(resp, taxonomy.RedirectNotFollowed,
			"redo: status %d redirects to another origin, %s: the request is not repeated there",
			resp.StatusCode, withoutQuery(to))
	case !x.Body.Replayable():
		return nil, nil
	case x.hops >= maxRedirects:
		return nil, refuse(resp, taxonomy.TooManyRedirects, "redo: stopped after %d redirects", maxRedirects)
	}
	discard(resp)
	next := r.WithContext(r.Context())
	next.URL, next.Host, next.Response = to, "", resp
	if u, err := url.Parse(location); same && err == nil && !u.IsAbs() && u.Host == "" {
		next.Host = r.Host // the virtual host of a relative Location is the same one
	}
	next.Header = x.redirected(r.Header, same)
	switch {
	case resp.StatusCode == http.StatusSeeOther && r.Method != http.MethodHead:
		next.Method, next.Body, next.GetBody, next.ContentLength = http.MethodGet, nil, nil, 0 // RFC 9110 §15.4.4
	case r.Body != nil: // it is nil after a 303
		if err := x.Body.Attach(next); err != nil {
			return nil, &Refused{Code: taxonomy.BodyNotReplayable, Err: err}
		}
	}
	return next, nil
}

// WithoutKey returns the error of a request with which an http.Client above follows a redirect of a keyed request. The
// client has dropped the key.
func WithoutKey(r *http.Request) error {
	return fmt.Errorf("redo: status %d redirects to %s: the request is not repeated there without its key",
		r.Response.StatusCode, withoutQuery(r.URL))
}

func withoutQuery(u *url.URL) string { return u.Scheme + "://" + u.Host + u.EscapedPath() }

// strayed reports whether r follows a redirect from or over another origin. An http.Client sets Request.Response to the
// response that redirects.
func strayed(r *http.Request) bool {
	for hop := r; hop.Response != nil && hop.Response.Request != nil; {
		if hop = hop.Response.Request; !wire.SameOrigin(hop.URL, r.URL) {
			return true
		}
	}
	return false
}

// redirected returns the header of the request that follows a redirect. same is true on the same origin.
func (x *Exchange) redirected(h http.Header, same bool) http.Header {
	if same {
		return maps.Clone(h)
	}
	kept := http.Header{}
	for _, name := range crossOrigin {
		if v := h[name]; v != nil && !x.Private[name] {
			kept[name] = v
		}
	}
	return kept
}

// refuse returns the error of a redirect that is not followed. Its effect is NotApplied. For a request that is not safe
// the status is 307 or 308, which the server sends instead of doing the work (RFC 9110 §15.4.8, §15.4.9). After a
// redirect of squid the effect is unknown: it may stand in for the server's response (deny_info, http_reply_access).
func refuse(resp *http.Response, code taxonomy.Code, format string, args ...any) error {
	discard(resp)
	refused := &Refused{Code: code, Effect: taxonomy.NotApplied, Err: fmt.Errorf(format, args...)}
	if resp.Header.Get("X-Squid-Error") != "" {
		refused.Effect = taxonomy.EffectUnknown
	}
	return refused
}

// discard reads a short body to its end, and closes it.
func discard(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, maxRedirectBody)
	_ = resp.Body.Close()
}
