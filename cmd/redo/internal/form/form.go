// Package form writes conformance reports: as text or a page for a person, as JSON, and as JUnit's XML for build servers;
// several reports as a matrix of cases and servers.
package form

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/redo-go/redo/cmd/redo/internal/page"
	"github.com/redo-go/redo/conformance"
)

// Options say how a report is written.
type Options struct {
	// Strict says that broken and unproved rules of all levels count, as in conformance.Report.ExitCode.
	Strict bool
	// Colors is for text on a terminal.
	Colors bool
	// Verbose lists what passed and was skipped in text, case by case.
	Verbose bool
	// Command is the command line that made the report, without the choice of cases. It is empty if no line can
	// repeat it.
	Command string
}

// A Writer writes one form of reports. With several it writes them side by side, where the form can.
type Writer func(w io.Writer, o Options, reports ...conformance.Report) error

// forms by the name that flags give them.
var forms = map[string]Writer{
	"text":  Text,
	"html":  HTML,
	"json":  JSON,
	"junit": JUnit,
}

// extensions of files, and the form that they stand for.
var extensions = map[string]string{
	".txt": "text", ".json": "json", ".xml": "junit", ".html": "html",
}

// Names returns the names of the forms, sorted.
func Names() []string { return sorted(forms) }

// Named returns the form with the name, or an error that lists them.
func Named(name string) (Writer, error) {
	f, ok := forms[name]
	if !ok {
		return nil, fmt.Errorf("there is no format %q, there are %s", name, strings.Join(Names(), ", "))
	}
	return f, nil
}

// ForFile returns the form that a file's extension stands for.
func ForFile(name string) (Writer, error) {
	f, ok := extensions[strings.ToLower(filepath.Ext(name))]
	if !ok {
		return nil, fmt.Errorf("%q: the extension says no format, it can be %s", name, strings.Join(sorted(extensions), ", "))
	}
	return forms[f], nil
}

func sorted[V any](m map[string]V) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// JSON writes a report as one object, and several as an array of them.
func JSON(w io.Writer, _ Options, reports ...conformance.Report) error {
	var v any = reports
	if len(reports) == 1 {
		v = reports[0]
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// HTML writes one page that needs nothing beside it.
func HTML(w io.Writer, _ Options, reports ...conformance.Report) error {
	return page.Write(w, reports...)
}

// brief is what a result says in one line.
func brief(res conformance.Result) string {
	text := res.Reason
	if text == "" && len(res.Findings) > 0 {
		text = res.Findings[0].Actual
		if expected := res.Findings[0].Expected; expected != "" {
			text += "; expected " + expected
		}
	}
	switch {
	case res.Expected != "" && res.Verdict == conformance.Pass:
		text = "passes, but is expected to fail: " + res.Expected
	case res.Expected != "":
		text = "expected (" + res.Expected + "): " + text
	}
	return oneLine(text)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// named is what a report's target is called.
func named(r conformance.Report) string {
	switch {
	case r.Target != "" && r.BaseURL != "":
		return r.Target + " at " + r.BaseURL
	case r.Target != "":
		return r.Target
	case r.BaseURL != "":
		return r.BaseURL
	}
	return "unknown target"
}
