// Package form writes conformance reports as text, as a page, as JSON, and as JUnit's XML for build servers. Several
// reports become a matrix of cases and servers.
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

// Options holds the settings of all forms.
type Options struct {
	// Strict counts rules of all levels, as in conformance.Report.ExitCode.
	Strict bool
	// Colors colors the verdicts of a text, for terminals.
	Colors bool
	// Verbose lists every case in a text.
	Verbose bool
	// Command is the command line that made the report, without the flags that select cases. It is empty if no
	// command line can repeat the report.
	Command string
}

// Writer writes reports in one form.
type Writer func(w io.Writer, o Options, reports ...conformance.Report) error

// forms maps the names in flags to the forms.
var forms = map[string]Writer{
	"text":  Text,
	"html":  HTML,
	"json":  JSON,
	"junit": JUnit,
}

// extensions maps the extensions of files to the names of forms.
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

// ForFile returns the form for the extension of a file name.
func ForFile(name string) (Writer, error) {
	f, ok := extensions[strings.ToLower(filepath.Ext(name))]
	if !ok {
		return nil, fmt.Errorf("%q has the extension of no format, it can be %s", name,
			strings.Join(sorted(extensions), ", "))
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

// HTML writes one page. The page loads nothing.
func HTML(w io.Writer, _ Options, reports ...conformance.Report) error {
	return page.Write(w, reports...)
}
