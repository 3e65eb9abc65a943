package conformance

import (
	"fmt"
	"strings"
)

// writeMatrix writes the verdicts of several reports: a line for each case and a column for each report.
func (o Text) writeMatrix(b *strings.Builder, reports []Report) {
	slugs, width := slugsOf(reports), 0
	for _, slug := range slugs {
		width = max(width, len(slug))
	}
	const column = len(Inconclusive)
	for i, r := range reports {
		fmt.Fprintf(b, "%d  %s, profile %s, %s\n", i+1, r.Subject(), r.Profile,
			r.Started.Format("2006-01-02 15:04:05Z"))
	}
	head := fmt.Sprintf("\n%-*s", width, "")
	for i := range reports {
		head += fmt.Sprintf("  %-*d", column, i+1)
	}
	fmt.Fprintln(b, strings.TrimRight(head, " "))
	for _, slug := range slugs {
		line := fmt.Sprintf("%-*s", width, slug)
		for _, r := range reports {
			res, _ := r.Result(slug) // a report without the case has an empty cell
			line += fmt.Sprintf("  %-*s", column, res.Verdict)
		}
		fmt.Fprintln(b, strings.TrimRight(line, " "))
	}
	fmt.Fprintln(b)
	for i, r := range reports {
		fmt.Fprintf(b, "%d  %s: %s\n", i+1, r.Tally(), r.Headline(o.Strict))
	}
}

// slugsOf returns the slugs of all reports. The known cases come first, in the order of Cases. Reports of other
// releases may have more.
func slugsOf(reports []Report) []string {
	var slugs []string
	in, listed := map[string]bool{}, map[string]bool{}
	for _, r := range reports {
		for _, res := range r.Results {
			in[res.Slug] = true
		}
	}
	add := func(slug string) {
		if in[slug] && !listed[slug] {
			listed[slug] = true
			slugs = append(slugs, slug)
		}
	}
	for _, c := range Cases() {
		add(c.Slug)
	}
	for _, r := range reports {
		for _, res := range r.Results {
			add(res.Slug)
		}
	}
	return slugs
}
