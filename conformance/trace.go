package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// An Exchange is one request and what became of it, as the report holds it. Bytes that are no printable UTF-8 are written
// as \x and two digits, and secrets as ***.
type Exchange struct {
	// Label names the exchange within its case.
	Label string `json:"label"`
	// Delivery says what was done to it on the way; empty: nothing.
	Delivery string `json:"delivery,omitempty"`
	Method   string `json:"method"`
	Path     string `json:"path"`
	// RequestHeader and ResponseHeader are the lines of the headers, "Name: value".
	RequestHeader []string `json:"request_header,omitempty"`
	RequestBody   string   `json:"request_body,omitempty"`
	// SentMicros, FirstMicros and DoneMicros are microseconds since the case began: before the first byte of the request,
	// after the status line, and after the last byte. FirstMicros is zero when there was no status line.
	SentMicros  int64 `json:"sent_us"`
	FirstMicros int64 `json:"first_us,omitempty"`
	DoneMicros  int64 `json:"done_us"`
	// Interim are the informational statuses that came before.
	Interim        []int    `json:"interim,omitempty"`
	Status         int      `json:"status,omitempty"`
	ResponseHeader []string `json:"response_header,omitempty"`
	ResponseBody   string   `json:"response_body,omitempty"`
	// Error is why there is no whole response.
	Error string `json:"error,omitempty"`
	// Curl is a shell command that sends the same request.
	Curl string `json:"curl,omitempty"`
}

// maxShown is how many bytes of a body are written down.
const maxShown = 1024

// newExchange writes an exchange down.
func newExchange(label, delivery string, r request, a *answer, began time.Time, m *mask) *Exchange {
	x := &Exchange{
		Label:       label,
		Delivery:    delivery,
		Method:      r.method,
		Path:        m.hide(r.path),
		RequestBody: m.body(r.body),
		SentMicros:  a.sent.Sub(began).Microseconds(),
		DoneMicros:  a.done.Sub(began).Microseconds(),
		Interim:     a.interim,
		Status:      a.status,
	}
	if !a.first.IsZero() {
		x.FirstMicros = a.first.Sub(began).Microseconds()
	}
	for _, f := range r.fields {
		x.RequestHeader = append(x.RequestHeader, m.line(f))
	}
	for _, name := range sortedKeys(a.header) {
		for _, v := range a.header[name] {
			x.ResponseHeader = append(x.ResponseHeader, m.line(field{name, v}))
		}
	}
	x.ResponseBody = m.body(a.body)
	if a.err != nil {
		x.Error = m.hide(a.err.Error())
	}
	return x
}

// A mask hides secrets: the values of headers that hold some, wherever they stand.
type mask struct {
	names  []string
	values []string // longest first, so that none hides a part of another
}

// hidden takes a secret's place.
const hidden = "***"

func newMask(t Target) *mask {
	m := &mask{names: append([]string{
		"Authorization", "Proxy-Authorization", "Cookie", "Set-Cookie", "X-Api-Key", "Api-Key", "X-Auth-Token",
	}, t.SecretHeaders...)}
	add := func(headers map[string]string, all bool) {
		for name, value := range headers {
			if all {
				m.names = append(m.names, name)
			}
			if m.secret(name) {
				m.values = append(m.values, value)
				// "Bearer abc": the token alone is a secret too.
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
	}
	add(t.Operation.Headers, false)
	for _, v := range t.variants() {
		add(v.operation.Headers, false)
	}
	// A value of a letter or two would mask half of the report, and hides nothing that its header's line does not.
	m.values = slices.DeleteFunc(m.values, func(v string) bool { return len(v) < 4 })
	slices.SortFunc(m.values, func(a, b string) int { return len(b) - len(a) })
	m.values = slices.Compact(m.values)
	return m
}

func (m *mask) secret(name string) bool {
	return slices.ContainsFunc(m.names, func(n string) bool { return strings.EqualFold(n, name) })
}

// hide masks the known values in a text and makes it printable.
func (m *mask) hide(s string) string {
	for _, v := range m.values {
		s = strings.ReplaceAll(s, v, hidden)
	}
	return printable(s)
}

func (m *mask) line(f field) string {
	if m.secret(f.name) {
		return f.name + ": " + hidden
	}
	return f.name + ": " + m.hide(f.value)
}

// body masks before it cuts, so that no half of a secret is left at the end.
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

// printable writes what is no printable UTF-8 as \x and two digits.
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

// headerLines returns all lines of the headers that the function picks.
func headerLines(h http.Header, pick func(name string) bool) []string {
	var lines []string
	for _, name := range sortedKeys(h) {
		if pick(name) {
			for _, v := range h[name] {
				lines = append(lines, name+": "+v)
			}
		}
	}
	return lines
}
