package conformance

import (
	"fmt"
	"slices"
	"strings"
)

// curl returns a shell command that sends the request. Its secrets are masked. The harness's own keys are
// variables, so that the command does not meet the record that the case left.
func (t *trial) curl(r request) string {
	var b strings.Builder
	b.WriteString("curl -si -X " + r.method)
	for _, f := range r.fields {
		value := f.value
		if t.run.mask.secret(f.name) {
			value = hidden
		}
		if variable := t.run.target.variable(f); variable != "" {
			b.WriteString(" -H " + quote(f.name+": ") + `"$` + variable + `"`)
			continue
		}
		value = t.run.mask.replace(value)
		if value == "" {
			b.WriteString(" -H " + quote(f.name+";")) // curl's syntax for an empty header
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
	return b.String() + " " + quote(t.run.address(r))
}

// variable returns the name of the shell variable for a principal's header in a curl line, such as
// ALICE_AUTHORIZATION. It returns "" for other headers.
func (t Target) variable(f field) string {
	for i, p := range t.Principals {
		for name, value := range p.Headers {
			if strings.EqualFold(name, f.name) && value == f.value {
				who := p.Name
				if who == "" {
					who = fmt.Sprintf("PRINCIPAL_%d", i+1)
				}
				return strings.Map(func(r rune) rune {
					if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
						return r
					}
					return '_'
				}, strings.ToUpper(who+"_"+name))
			}
		}
	}
	return ""
}

// curls joins the requests of a case into one shell line. The line makes new keys and sends the requests again.
// The result is "" if no such line can repeat the case: after races, broken connections and setup steps, and for
// more than a few requests.
func (t *trial) curls() string {
	const most = 4
	if len(t.exchanges) > most || t.sent < len(t.exchanges) || slices.ContainsFunc(t.exchanges, func(x *Exchange) bool { return x.Delivery != "" }) {
		return ""
	}
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

// quote quotes a word for bash and other shells that support $'...'. It uses that form only for bytes that must be
// escaped.
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
