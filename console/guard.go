package console

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// maxForm limits the bytes of a form.
const maxForm = 64 << 10

// policy lets a page load the console's own stylesheet, and nothing else.
const policy = "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; " +
	"frame-ancestors 'none'"

// guard serves the requests that are allowed.
func (c *Console) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Frame-Options", "DENY")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin") // "no-referrer" would make the Origin of a form "null"
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		name := c.local
		switch {
		case c.authenticate != nil:
			var ok bool
			if name, ok = c.authenticate(r); !ok || name == "" {
				http.Error(w, "console: not authenticated", http.StatusUnauthorized)
				return
			}
		case !local(r):
			http.Error(w,
				"console: without Authenticate it serves only this machine, by a loopback address or localhost",
				http.StatusForbidden)
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), authorKey{}, name))
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if err := r.ParseForm(); err != nil {
			status := http.StatusBadRequest
			if _, long := errors.AsType[*http.MaxBytesError](err); long {
				status = http.StatusRequestEntityTooLarge
			}
			http.Error(w, "console: the form can't be read: "+err.Error(), status)
			return
		}
		next.ServeHTTP(w, r)
	})
}

type authorKey struct{}

// author returns the author of a request that guard has let through.
func author(r *http.Request) string {
	name, _ := r.Context().Value(authorKey{}).(string)
	return name
}

// proxied are the headers that a proxy sets, beside those of a common prefix.
var proxied = []string{"Forwarded", "Via", "X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "True-Client-Ip"}

// local reports whether the request comes from this machine and is addressed to it. A page of another site whose
// name was rebound to a loopback address has that site's Host. A proxy on this machine may pass on requests of
// others.
func local(r *http.Request) bool {
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Forwarded-") || strings.HasPrefix(name, "Cf-") || slices.Contains(proxied, name) {
			return false
		}
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && peer.Addr().Unmap().IsLoopback() && loopbackHost(r.Host)
}

// loopbackHost reports whether a Host header names this machine.
func loopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	return err == nil && ip.Unmap().IsLoopback()
}
