package conformance

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/redo-go/redo/internal/wire"
)

// template is text with variables in double braces. It lets one description produce a fresh payload each time.
//
//	{{payload}}  a new word for each payload; a retry has the same one
//	{{number}}   the same as a whole number, 1 or more
//	{{uuid}}     the same as a UUID
//	{{now}}      the time at which the payload was made, in UTC (RFC 3339)
//	{{case}}     a word of the case in this run; a count by it holds only this case's effects
//	{{run}}      a word of the run
//
// A setup step adds the variables that it captures.
type template struct {
	text  []string // the text before each variable, and at the end
	names []string
}

const (
	varPayload = "payload"
	varNumber  = "number"
	varUUID    = "uuid"
	varNow     = "now"
	varCase    = "case"
	varRun     = "run"
)

var variables = []string{varPayload, varNumber, varUUID, varNow, varCase, varRun}

// variableName is the syntax of a variable's name.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// parseTemplate parses a template. Single braces are text, so that JSON needs no escapes. A pair of opening braces
// must start a variable.
func parseTemplate(s string) (template, error) {
	var t template
	for {
		before, rest, found := strings.Cut(s, "{{")
		if !found {
			t.text = append(t.text, s)
			return t, nil
		}
		name, after, closed := strings.Cut(rest, "}}")
		name = strings.TrimSpace(name)
		if !closed || !variableName.MatchString(name) {
			return template{}, fmt.Errorf("{{%s is no variable of a template; to send two braces write a space "+
				"between "+
				"them", excerpt(name))
		}
		t.text, t.names = append(t.text, before), append(t.names, name)
		s = after
	}
}

// render fills in the variables.
func (t template) render(values map[string]string) string {
	var b strings.Builder
	for i, name := range t.names {
		b.WriteString(t.text[i])
		b.WriteString(values[name])
	}
	b.WriteString(t.text[len(t.text)-1])
	return b.String()
}

// uses reports whether the text has one of the variables. It returns false for an invalid template.
func uses(s string, names ...string) bool {
	t, err := parseTemplate(s)
	return err == nil && slices.ContainsFunc(t.names, func(name string) bool { return slices.Contains(names, name) })
}

// validateTemplate returns an error if the text is no template, or uses a variable that is not known.
func validateTemplate(s string, known []string) error {
	t, err := parseTemplate(s)
	for _, name := range t.names {
		if !slices.Contains(known, name) {
			return unknownName{fmt.Sprintf("there is no variable {{%s}} in this template", excerpt(name)), name, known}
		}
	}
	return err
}

// fill renders a text that was validated before.
func fill(s string, values map[string]string) string {
	t, err := parseTemplate(s)
	if err != nil {
		return s
	}
	return t.render(values)
}

// excerpt shortens a text for a message.
func excerpt(s string) string {
	const most = 40
	if len(s) > most {
		return wire.Cut(s, most) + "..."
	}
	return s
}
