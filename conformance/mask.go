package conformance

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/redo-go/redo/internal/wire"
)

// mask replaces secrets in a report. Secrets are the values of the headers and of the query parameters that carry
// credentials. A mask knows the secrets of the target's description, and replaces them wherever they occur.
type mask struct {
	names  []string // headers that wire.CredentialHeader does not list
	values []string // longest first, so that none replaces a part of another
}

// hidden replaces a secret.
const hidden = "***"

func newMask(t Target) *mask {
	// Set-Cookie is a response header, so it is not in wire's list of request headers.
	m := &mask{names: append([]string{"Set-Cookie"}, t.SecretHeaders...)}
	add := func(headers map[string]string, all bool) {
		for name, value := range headers {
			if all {
				m.names = append(m.names, name)
			}
			if m.secret(name) {
				m.values = append(m.values, value)
				// In "Bearer abc" the token alone is a secret too.
				if _, rest, ok := strings.Cut(value, " "); ok {
					m.values = append(m.values, rest)
				}
			}
		}
	}
	for _, p := range t.Principals {
		add(p.Headers, true)
	}
	if t.Effects != nil {
		add(t.Effects.Headers, true)
		m.addQuery(t.Effects.URL)
	}
	add(t.Operation.Headers, false)
	m.addQuery(t.Operation.Path)
	for _, s := range t.Setup {
		add(s.Headers, false)
		m.addQuery(s.Path)
	}
	for _, v := range t.variants() {
		add(v.operation.Headers, false)
		m.addQuery(v.operation.Path)
	}
	// A value shorter than four bytes would mask half of the report. It hides nothing that the mask of its header line
	// does not hide.
	m.values = slices.DeleteFunc(m.values, func(v string) bool { return len(v) < 4 })
	slices.SortFunc(m.values, func(a, b string) int { return len(b) - len(a) })
	m.values = slices.Compact(m.values)
	return m
}

// addQuery adds the credentials of a URL's query, both as written and decoded. A template is not a secret, because
// the harness fills it.
func (m *mask) addQuery(address string) {
	eachParameter(address, func(name, value string) string {
		if wire.CredentialParameter(name, value) && !strings.Contains(value, "{{") {
			m.values = append(m.values, value)
			if decoded, err := url.QueryUnescape(value); err == nil {
				m.values = append(m.values, decoded)
			}
		}
		return value
	})
}

// eachParameter calls f with the decoded name and the undecoded value of each query parameter. It returns the
// address with the values that f returned.
func eachParameter(address string, f func(name, value string) string) string {
	before, query, ok := strings.Cut(address, "?")
	if !ok {
		return address
	}
	parts := strings.Split(query, "&")
	for i, part := range parts {
		written, value, ok := strings.Cut(part, "=")
		if !ok {
			continue
		}
		name := written
		if decoded, err := url.QueryUnescape(written); err == nil {
			name = decoded
		}
		parts[i] = written + "=" + f(name, value)
	}
	return before + "?" + strings.Join(parts, "&")
}

// secret reports whether the header's value is a secret.
func (m *mask) secret(name string) bool {
	return wire.CredentialHeader(name) ||
		slices.ContainsFunc(m.names, func(n string) bool { return strings.EqualFold(n, name) })
}

// replace returns the text with the known secrets replaced.
func (m *mask) replace(s string) string {
	for _, v := range m.values {
		s = strings.ReplaceAll(s, v, hidden)
	}
	return s
}

// hide returns the text with the known secrets replaced, and printable.
func (m *mask) hide(s string) string { return printable(m.replace(s)) }

// path returns a path with its query. It replaces the known secrets and every credential of the query.
func (m *mask) path(p string) string {
	return m.replace(eachParameter(p, func(name, value string) string {
		if wire.CredentialParameter(name, value) {
			return hidden
		}
		return value
	}))
}

// line returns a header line in the form that the report shows.
func (m *mask) line(f field) string {
	if m.secret(f.name) {
		return f.name + ": " + hidden
	}
	return f.name + ": " + m.hide(f.value)
}

// body returns the start of a body, at most maxShown bytes. It replaces secrets before it cuts, because a cut
// could leave half of a secret.
func (m *mask) body(b []byte) string {
	s := m.hide(string(b[:min(len(b), 64<<10)])) // far more than is shown
	if len(s) > maxShown {
		cut := maxShown
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = fmt.Sprintf("%s... (%d bytes in all)", s[:cut], len(b))
	}
	return s
}

// printable returns s with each byte that is not printable UTF-8 as \x and two digits.
func printable(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 || r < ' ' && r != '\n' && r != '\t' || r == 0x7F {
			fmt.Fprintf(&b, `\x%02X`, s[i])
		} else {
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}
