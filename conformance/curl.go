package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redo-go/redo/internal/wire"
)

// curl returns a shell command that sends the request. Keys and secrets are variables in it: a new key does not meet
// the record that the case left. The result is "" if the command would show a secret, or would use the case's own key.
func (t *trial) curl(r request) string {
	target := t.run.target
	command := "curl -gsi"
	switch {
	case r.method == http.MethodHead:
		command += " -I"
	default:
		command += " -X " + r.method
	}
	typed := false
	for _, f := range r.fields {
		typed = typed || strings.EqualFold(f.name, "Content-Type")
		if f.value == "" {
			command += " -H " + quote(f.name+";") // curl's syntax for an empty header
			continue
		}
		if f.name == t.run.profile.FirstSent {
			command += " -H " + quote(f.name+": ") + `"$(LC_ALL=C date -u '+%a, %d %b %Y %T GMT')"`
			continue
		}
		line := t.shellWord(f.name + ": " + f.value)
		if !strings.Contains(line, `"$`) {
			switch {
			case t.run.mask.secret(f.name):
				line = quote(f.name+": ") + `"$` + target.variable(f) + `"`
			case strings.EqualFold(f.name, target.keyHeader()) && len(f.value) >= minKey:
				return ""
			}
		}
		command += " -H " + line
	}
	if len(r.key) >= minKey && !strings.Contains(t.shellWord(r.key), `"$`) {
		return ""
	}
	if r.chunked {
		command += " -H 'Transfer-Encoding: chunked'"
	}
	if len(r.body) > 0 || !wire.SafeMethod(r.method) {
		if !typed {
			command += " -H Content-Type:" // or curl sends that of a form
		}
		command += " --data-raw " + t.shellWord(string(r.body))
	}
	if strings.HasPrefix(target.BaseURL, "https:") {
		command += " --http1.1"
		files := [][2]string{{" --cacert ", target.CAFile}, {" --cert ", target.CertFile}, {" --key ", target.KeyFile}}
		for _, option := range files {
			if option[1] != "" {
				command += option[0] + quote(option[1])
			}
		}
		if target.Insecure {
			command += " -k"
		}
	}
	command += " " + t.shellWord(target.origin()+r.path)
	if t.run.mask.replace(command) != command || t.run.mask.path(r.path) != t.run.mask.replace(r.path) {
		return ""
	}
	return command
}

// shellWord quotes a text for a shell. The harness's own keys and the secrets in it become variables. A key in capitals
// is an expansion of bash.
func (t *trial) shellWord(s string) string {
	split := func(value, name string) (string, bool) {
		before, after, ok := strings.Cut(s, value)
		if !ok {
			return "", false
		}
		word := `"$` + name + `"`
		if before != "" {
			word = t.shellWord(before) + word
		}
		if after != "" {
			word += t.shellWord(after)
		}
		return word, true
	}
	for _, id := range t.ids() {
		if word, ok := split(id.value, id.variable); ok {
			return word
		}
		if word, ok := split(strings.ToUpper(id.value), "{"+id.variable+"^^}"); ok {
			return word
		}
	}
	for _, secret := range t.run.mask.secrets {
		if word, ok := split(secret.value, secret.variable); ok && secret.variable != "" {
			return word
		}
	}
	return quote(s)
}

// ids returns the UUIDs of the trial with their shell variables: K for a key, U for a payload.
func (t *trial) ids() []secret {
	var all []secret
	for i, id := range t.keys {
		all = append(all, secret{id, "K" + strconv.Itoa(i+1)})
	}
	for i, id := range t.uuids {
		all = append(all, secret{id, "U" + strconv.Itoa(i+1)})
	}
	return all
}

// variable returns the name of the shell variable for a secret header, such as ALICE_AUTHORIZATION for a principal's
// and AUTHORIZATION for another.
func (t Target) variable(f field) string {
	for i, p := range t.Principals {
		for name, value := range p.Headers {
			if strings.EqualFold(name, f.name) && value == f.value {
				who := p.Name
				if who == "" {
					who = fmt.Sprintf("PRINCIPAL_%d", i+1)
				}
				return ShellName(who + "_" + name)
			}
		}
	}
	return ShellName(f.name)
}

// ShellName returns the name of the shell variable for a header's value in a command line: X_API_KEY for X-Api-Key.
func ShellName(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(s))
}

// curls joins the requests of a case into one shell line. The line makes new keys and sends the requests again, with
// the pauses between them. The result is "" if no such line can repeat the case: after races, broken connections,
// restarts and setup steps, and for more than a few requests. Few shells can make a UUID of version 7.
func (t *trial) curls() string {
	const most = 4
	if t.run.profile.KeyForm == UUIDv7 || t.restarted || len(t.exchanges) > most || t.sent < len(t.exchanges) ||
		slices.ContainsFunc(t.exchanges, func(x *Exchange) bool { return x.Delivery != "" || x.Curl == "" }) {
		return ""
	}
	var parts []string
	for i := 0; i < len(t.exchanges); {
		x := t.exchanges[i]
		if i > 0 && pauseBefore(t.exchanges, i) > 0 {
			parts = append(parts, fmt.Sprintf("sleep %.1f", pauseBefore(t.exchanges, i).Seconds()))
		}
		times := "1"
		for i++; i < len(t.exchanges) && t.exchanges[i].Curl == x.Curl && pauseBefore(t.exchanges, i) == 0; i++ {
			times += " " + strconv.Itoa(len(times)/2+2)
		}
		if times == "1" {
			parts = append(parts, x.Curl)
			continue
		}
		parts = append(parts, "for i in "+times+"; do "+x.Curl+"; done")
	}
	line := strings.Join(parts, "; ")
	set := ""
	for _, id := range t.ids() {
		if strings.Contains(line, `"$`+id.variable+`"`) || strings.Contains(line, `"${`+id.variable+`^^}"`) {
			set += id.variable + "=" + newUUID + "; "
		}
	}
	return set + line
}

// newUUID is the shell text for a fresh UUID of version 4. Without one, curl would send no key. Small Linux systems
// have no uuidgen.
const newUUID = "$( (uuidgen || cat /proc/sys/kernel/random/uuid) 2>/dev/null | tr A-Z a-z)"

// pauseBefore returns the pause before an exchange that is not the first one. Short pauses are zero.
func pauseBefore(exchanges []*Exchange, i int) time.Duration {
	wait := time.Duration(exchanges[i].SentMicros-exchanges[i-1].DoneMicros) * time.Microsecond
	if wait <= 100*time.Millisecond {
		return 0
	}
	return wait
}

// quote quotes a word for bash and other shells that support $'...'. It uses that form only for bytes that must be
// escaped.
func quote(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
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
