package wire

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// SameOrigin reports whether two URLs have the same scheme, host and port (RFC 6454 section 4).
func SameOrigin(a, b *url.URL) bool {
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

// WithoutCredentials returns the URL without user and password, and without query parameters that are credentials. It
// reports whether the query had any.
func WithoutCredentials(from *url.URL) (u url.URL, secret bool) {
	u = *from
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	var kept []string
	for part := range strings.SplitSeq(from.RawQuery, "&") {
		name, value, _ := strings.Cut(part, "=")
		if decoded, err := url.QueryUnescape(name); err == nil && CredentialParameter(decoded, value) {
			secret = true
			continue
		}
		kept = append(kept, part)
	}
	if secret {
		u.RawQuery = strings.Join(kept, "&")
	}
	return u, secret
}

// Masked replaces a secret in the text that an operator sees.
const Masked = "***"

// ShownURL returns the text of a URL for an operator. Masked replaces the credentials and the query, because they may
// be secrets. The fragment is left out. A password that is not escaped can make a URL that does not parse, with the
// password anywhere in it: nothing of such a URL is shown. Of a text that is no URL only a query is masked.
func ShownURL(address string) string {
	if _, err := url.Parse(address); err != nil && strings.Contains(address, "://") && strings.Contains(address, "@") {
		return "a URL that can't be read"
	}
	shown, _, query := strings.Cut(address, "?")
	if scheme, rest, found := strings.Cut(shown, "://"); found {
		rest, _, _ = strings.Cut(rest, "#")
		authority, _, _ := strings.Cut(rest, "/")
		if at := strings.LastIndexByte(authority, '@'); at >= 0 {
			rest = Masked + rest[at:]
		}
		shown = scheme + "://" + rest
	}
	if query {
		shown += "?" + Masked
	}
	return shown
}

// WithoutURL takes the URL out of the error about one that does not parse: it may hold a password and a query.
func WithoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("the URL does not parse: %w", u.Err)
	}
	return err
}

// WithoutQuery takes the query and the password out of the text of every url.Error in err. It returns nil for nil.
func WithoutQuery(err error) error {
	if err == nil {
		return nil
	}
	text, found := err.Error(), false
	for u, ok := errors.AsType[*url.Error](err); ok; u, ok = errors.AsType[*url.Error](u.Err) {
		found = true
		shown := "the URL"
		if parsed, err := url.Parse(u.URL); err == nil {
			shown = parsed.Scheme + "://" + parsed.Host + parsed.EscapedPath()
		}
		text = strings.ReplaceAll(text, strconv.Quote(u.URL), strconv.Quote(shown))
	}
	if !found {
		return err
	}
	return &quietError{text, err}
}

// A quietError shows another text than the error that it wraps.
type quietError struct {
	text string
	err  error
}

func (e *quietError) Error() string { return e.text }
func (e *quietError) Unwrap() error { return e.err }
