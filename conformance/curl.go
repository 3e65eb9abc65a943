package conformance

import (
	"fmt"
	"strings"
)

// curl returns a shell command that sends the request. Secrets are masked in it, and the harness's own keys are variables,
// so that it does not run into the record that the case has left.
func (t *trial) curl(r request) string {
	var b strings.Builder
	b.WriteString("curl -si -X " + r.method)
	for _, f := range r.fields {
		value := f.value
		if t.run.mask.secret(f.name) {
			value = hidden
		}
		value = t.run.mask.replace(value)
		if value == "" {
			b.WriteString(" -H " + quote(f.name+";")) // how curl is told of an empty header
			continue
		}
		line := quote(f.name + ": " + value)
		for i, key := range t.keys {
			if before, after, ok := strings.Cut(value, key); ok {
				line = quote(f.name+": "+before) + fmt.Sprintf(`"$K%d"`, i+1)
				if after != "" {
					line += quote(after)
				}
				break
			}
		}
		b.WriteString(" -H " + line)
	}
	if r.chunked {
		b.WriteString(" -H 'Transfer-Encoding: chunked'")
	}
	if len(r.body) > 0 {
		b.WriteString(" --data-binary " + quote(t.run.mask.replace(string(r.body))))
	}
	return b.String() + " " + quote(strings.TrimSuffix(t.run.target.BaseURL, "/")+t.run.mask.path(r.path))
}

// curls joins what a case has sent into one line that makes its keys and sends it again, for up to a few exchanges: races
// and broken connections can't be repeated so, and the line is then only where to begin.
func (t *trial) curls() string {
	const most = 4
	var parts []string
	for i := range t.keys {
		if strings.Contains(strings.Join(t.lines(most), ""), fmt.Sprintf("$K%d", i+1)) {
			parts = append(parts, fmt.Sprintf("K%d=$(uuidgen)", i+1))
		}
	}
	return strings.Join(append(parts, t.lines(most)...), "; ")
}

func (t *trial) lines(most int) []string {
	var lines []string
	for _, x := range t.exchanges[:min(most, len(t.exchanges))] {
		lines = append(lines, x.Curl)
	}
	return lines
}

// quote quotes a word for bash and other shells that know $'...', which is only used for bytes that have to be escaped.
func quote(s string) string {
	plain := true
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			plain = false
		}
	}
	if plain {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\'' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String() + "'"
}
