package page

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io"
	"regexp"
	"slices"

	"github.com/redo-go/redo/conformance"
)

// ErrReport matches the error of a report that no page can be made of.
var ErrReport = errors.New("page: the report can't be shown")

// Write writes the page of one report, or the matrix of several in the order given, which is that of the columns.
// Nothing is written when the error matches ErrReport: there is no report, one has another schema than
// conformance.Schema, or its results are not such as Run returns. Any other error is the writer's.
//
// Nothing is masked here: reports hold no secrets.
func Write(w io.Writer, reports ...conformance.Report) error {
	if len(reports) == 0 {
		return fmt.Errorf("%w: there is none", ErrReport)
	}
	for i, r := range reports {
		if err := check(r); err != nil {
			return fmt.Errorf("%w: number %d (%q): %w", ErrReport, i+1, r.Target, err)
		}
	}
	var b bytes.Buffer // half a page looks like a short one
	if err := layout.Execute(&b, newDocument(reports)); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// slugs become the page's anchors.
var slugs = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

func check(r conformance.Report) error {
	if r.Schema != conformance.Schema {
		return fmt.Errorf("its schema is %q, and %q can be read", r.Schema, conformance.Schema)
	}
	seen := map[string]bool{}
	for _, res := range r.Results {
		switch {
		case !slugs.MatchString(res.Slug):
			return fmt.Errorf("%q is no case's slug", res.Slug)
		case seen[res.Slug]:
			return fmt.Errorf("it has two results of %s", res.Slug)
		case !slices.Contains(conformance.Verdicts(), res.Verdict):
			return fmt.Errorf("%s has the verdict %q, which is none", res.Slug, res.Verdict)
		case slices.Contains(res.Exchanges, nil):
			return fmt.Errorf("%s has an exchange that is null", res.Slug)
		}
		seen[res.Slug] = true
	}
	return nil
}

var (
	//go:embed page.gohtml
	pageTemplate string
	//go:embed page.css
	pageStyle string
	//go:embed page.js
	pageScript string

	layout = template.Must(template.New("page").Funcs(template.FuncMap{
		"text":  func(s string) template.HTML { return reveal(s, maxText) },
		"brief": func(s string) template.HTML { return reveal(s, maxFinding) },
		"plain": plain,
	}).Parse(pageTemplate))
)

// A document is the whole page.
type document struct {
	Title   string
	Policy  string // the content security policy
	Style   template.CSS
	Script  template.JS
	Marks   []mark
	Servers []server
	Matrix  *matrix // nil: there is one server
}

func newDocument(reports []conformance.Report) document {
	d := document{
		Title: "Idempotency conformance",
		// Only the parts of this file are allowed, by hash. Markup that gets past the escaping neither runs nor loads.
		Policy: "default-src 'none'; base-uri 'none'; form-action 'none'; style-src " + source(pageStyle) +
			"; script-src " +
			source(pageScript),
		Style:  template.CSS(pageStyle),
		Script: template.JS(pageScript),
		Marks:  marks(),
	}
	for i, r := range reports {
		anchors := "case-"
		if len(reports) > 1 {
			anchors = fmt.Sprintf("s%d-", i+1)
		}
		d.Servers = append(d.Servers, newServer(i+1, anchors, r))
	}
	if len(reports) > 1 {
		d.Matrix = newMatrix(d.Servers)
		d.Title += fmt.Sprintf(" of %d servers", len(reports))
	} else {
		d.Title += ": " + plain(d.Servers[0].Name)
	}
	return d
}

// source names an inline style or script in a content security policy.
func source(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
