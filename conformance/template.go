package conformance

import (
	"fmt"
	"slices"
	"strings"
)

// template is text with variables in double braces. It lets one description produce a fresh payload each time.
//
//	{{payload}}  a new word for each payload; a retry has the same one
//	{{number}}   the same as a whole number, 1 or more
//	{{case}}     a word of the case in this run; a count by it holds only this case's effects
//	{{run}}      a word of the run
type template struct {
	text  []string // the text before each variable, and at the end
	names []string
}

const (
	varPayload = "payload"
	varNumber  = "number"
	varCase    = "case"
	varRun     = "run"
)

var variables = []string{varPayload, varNumber, varCase, varRun}

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
		if !closed || !slices.Contains(variables, name) {
			return template{}, fmt.Errorf("{{%s is no variable of a template, they are {{%s}}; to send two braces write "+
				"a space between them",
				excerpt(name), strings.Join(variables, "}}, {{"))
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
		return s[:most] + "..."
	}
	return s
}
