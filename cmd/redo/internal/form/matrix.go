package form

import (
	"fmt"
	"io"
	"strings"

	"github.com/redo-go/redo/conformance"
)

// matrix writes what several targets came to, a line for each case and a column for each target.
func matrix(w io.Writer, o Options, reports []conformance.Report) {
	slugs, width := slugsOf(reports), 0
	for _, slug := range slugs {
		width = max(width, len(slug))
	}
	const column = len(conformance.Inconclusive)
	for i, r := range reports {
		fmt.Fprintf(w, "%d  %s, profile %s, %s\n", i+1, named(r), r.Profile, r.Started.Format("2006-01-02 15:04:05Z"))
	}
	head := fmt.Sprintf("\n%-*s", width, "")
	for i := range reports {
		head += fmt.Sprintf("  %-*d", column, i+1)
	}
	fmt.Fprintln(w, strings.TrimRight(head, " "))
	for _, slug := range slugs {
		line := fmt.Sprintf("%-*s", width, slug)
		for _, r := range reports {
			res, _ := r.Result(slug) // none: an empty cell
			line += "  " + o.paint(res.Verdict, string(res.Verdict)) + strings.Repeat(" ", column-len(res.Verdict))
		}
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
	fmt.Fprintln(w)
	for i, r := range reports {
		fmt.Fprintf(w, "%d  %s: %s\n", i+1, tally(r), o.conclusion(r))
	}
}

// slugsOf returns the slugs of all reports: those that this program knows in their order, and then those that it does
// not, as other releases may have them.
func slugsOf(reports []conformance.Report) []string {
	var slugs []string
	in, seen := map[string]bool{}, map[string]bool{}
	for _, r := range reports {
		for _, res := range r.Results {
			in[res.Slug] = true
		}
	}
	add := func(slug string) {
		if in[slug] && !seen[slug] {
			seen[slug] = true
			slugs = append(slugs, slug)
		}
	}
	for _, c := range conformance.Cases() {
		add(c.Slug)
	}
	for _, r := range reports {
		for _, res := range r.Results {
			add(res.Slug)
		}
	}
	return slugs
}
