package exchange

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

// Check returns nil if net/http can send the request. Otherwise it returns the reason, which is the caller's to mend.
func Check(req *http.Request) *Refused {
	bad := func(code taxonomy.Code, format string, args ...any) *Refused {
		return &Refused{Code: code, Effect: taxonomy.NotApplied, Err: fmt.Errorf("redo: "+format, args...)}
	}
	switch {
	case req == nil:
		return bad(taxonomy.InvalidRequest, "the request is nil")
	case req.URL == nil:
		return bad(taxonomy.InvalidRequest, "the request's URL is nil")
	case req.URL.Scheme != "http" && req.URL.Scheme != "https":
		return bad(taxonomy.BadURL, "the URL's scheme is %q, it must be http or https", req.URL.Scheme)
	case req.URL.Host == "":
		return bad(taxonomy.BadURL, "the URL has no host")
	case !dialable(req.URL.Port()):
		return bad(taxonomy.BadURL, "the URL has the port %q, it must be from 1 to 65535", req.URL.Port())
	case strings.ContainsFunc(req.URL.RawQuery+req.URL.Opaque, isControl):
		return bad(taxonomy.BadURL, "the URL has a control character")
	case req.ContentLength != 0 && req.Body == nil:
		return bad(taxonomy.InvalidRequest, "the request declares a body of %d bytes, it has none", req.ContentLength)
	case req.Method != "" && !wire.Token(req.Method):
		return bad(taxonomy.InvalidRequest, "the method %q is not a token (RFC 9110 §9.1)", req.Method)
	}
	err := CheckHeader(req.Header)
	if err == nil {
		err = CheckHeader(req.Trailer)
	}
	for name := range req.Trailer {
		switch http.CanonicalHeaderKey(name) {
		case "Content-Length", "Trailer", "Transfer-Encoding": // RFC 9110 §6.5.1
			return bad(taxonomy.InvalidRequest, "the header %s must not be a trailer", name)
		}
	}
	if err != nil {
		return bad(taxonomy.InvalidRequest, "%w", err)
	}
	return nil
}

// dialable reports whether a URL's port, "" for the scheme's, can be dialed.
func dialable(port string) bool {
	if port == "" {
		return true
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

func isControl(c rune) bool { return c < ' ' || c == 0x7f }

// CheckHeader returns an error if net/http would not send the header.
func CheckHeader(h http.Header) error {
	for name, values := range h {
		if !wire.Token(name) {
			return fmt.Errorf("the header name %q is not a token (RFC 9110 §5.1)", name)
		}
		for _, v := range values {
			if !wire.HeaderValue(v) {
				return fmt.Errorf("the value of the header %s has a control character", name)
			}
		}
	}
	return nil
}
