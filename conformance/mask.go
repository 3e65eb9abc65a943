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
// credentials, and of the target's Secrets. A mask knows the secrets of the target's description, and replaces them
// wherever they occur.
type mask struct {
	names   []string // headers that wire.CredentialHeader does not list
	secrets []secret // longest first, so that none replaces a part of another
}

// secret is a text and the shell variable that replaces it in a curl line. The variable is "" for a part of another
// secret.
type secret struct{ value, variable string }

// hidden replaces a secret.
const hidden = "***"

func newMask(t Target) *mask {
	// Set-Cookie is a response header, so it is not in wire's list of request headers.
	m := &mask{names: append([]string{"Set-Cookie"}, t.SecretHeaders...)}
	for _, name := range sortedKeys(t.Secrets) {
		m.add(t.Secrets[name], name)
	}
	add := func(headers map[string]string, all bool) {
		for _, name := range sortedKeys(headers) {
			if all {
				m.names = append(m.names, name)
			}
			value := headers[name]
			if !m.secret(name) || m.replace(value) != value { // a part of it is a secret already
				continue
			}
			m.add(value, t.variable(field{name, value}))
			// In "Bearer abc" the token alone is a secret too, and so is each value of a Cookie.
			if strings.EqualFold(name, "Cookie") {
				for pair := range strings.SplitSeq(value, ";") {
					_, part, _ := strings.Cut(pair, "=")
					m.add(strings.TrimSpace(part), "")
				}
			} else if _, rest, ok := strings.Cut(value, " "); ok {
				m.add(rest, "")
			}
		}
	}
	for _, p := range t.Principals {
		add(p.Headers, true)
	}
	for _, e := range t.counters() {
		add(e.Headers, true)
		m.addQuery(e.URL)
	}
	operations := []Operation{t.Operation}
	for _, s := range t.Setup {
		operations = append(operations, s.Operation)
	}
	for _, v := range t.variants() {
		operations = append(operations, v.operation)
	}
	for _, o := range operations {
		add(o.Headers, false)
		m.addQuery(o.Path)
	}
	slices.SortStableFunc(m.secrets, func(a, b secret) int { return len(b.value) - len(a.value) })
	return m
}

// add adds a secret. A value shorter than four bytes would mask half of the report. It hides nothing that the mask of
// its header line does not hide.
func (m *mask) add(value, variable string) {
	if len(value) >= 4 {
		m.secrets = append(m.secrets, secret{value, variable})
	}
}

// addQuery adds the credentials of a URL's query, both as written and decoded. A template is not a secret, because
// the harness fills it.
func (m *mask) addQuery(address string) {
	eachParameter(address, func(name, value string) string {
		if wire.CredentialParameter(name, value) && !strings.Contains(value, "{{") && m.replace(value) == value {
			m.add(value, ShellName(name))
			if decoded, err := url.QueryUnescape(value); err == nil {
				m.add(decoded, "")
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
	for _, v := range m.secrets {
		s = strings.ReplaceAll(s, v.value, hidden)
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
		s = fmt.Sprintf("%s... (%d bytes in all)", wire.Cut(s, maxShown), len(b))
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
