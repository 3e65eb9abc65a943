package form

import (
	"io"
	"regexp"
	"strings"

	"github.com/redo-go/redo/conformance"
)

// Text writes a report for a person. Several reports are a matrix.
func Text(w io.Writer, o Options, reports ...conformance.Report) error {
	var b strings.Builder
	if err := o.text().Write(&b, reports...); err != nil {
		return err
	}
	text := b.String()
	if o.Colors {
		text = colored(text)
	}
	_, err := io.WriteString(w, text)
	return err
}

func (o Options) text() conformance.Text {
	return conformance.Text{Strict: o.Strict, Verbose: o.Verbose, Command: o.Command}
}

// sgr holds the colors of verdicts and outcomes, as SGR parameters (ECMA-48 8.3.117).
var sgr = map[string]string{
	string(conformance.Pass): "32", string(conformance.Conforms): "32",
	string(conformance.Fail): "1;31", string(conformance.Deviates): "1;31",
	string(conformance.Warn): "33", string(conformance.LittleTried): "33",
	string(conformance.Inconclusive): "35", string(conformance.Unproven): "35",
	string(conformance.Harness): "1;35",
}

// signal matches a verdict or an outcome at the start of a line, and a verdict in a column.
var signal = regexp.MustCompile(`(?im)(^|  )(` + strings.Join(sorted(sgr), "|") + `)\b`)

// colored colors the verdicts and outcomes of a text.
func colored(text string) string {
	return signal.ReplaceAllStringFunc(text, func(s string) string {
		word := strings.TrimLeft(s, " ")
		return s[:len(s)-len(word)] + "\x1b[" + sgr[strings.ToLower(word)] + "m" + word + "\x1b[0m"
	})
}
