package page

import (
	"slices"
	"strings"

	"github.com/redo-go/redo/conformance"
)

// A matrix has a column for each server and a row for each case that any of them has.
type matrix struct {
	Sections []*matrixSection
	Cases    int
}

type matrixSection struct {
	Title string
	Rows  []*matrixRow
}

type matrixRow struct {
	Slug    string
	Level   conformance.Level
	Rule    string
	Cells   []cell
	Differ  bool   // not all servers have the same verdict
	Summary string // the verdicts in it, for the filter
}

// cell holds the result of one case at one server. Its verdict is empty if the report does not have the case.
type cell struct {
	Verdict conformance.Verdict
	Note    string // the baseline's expectation
	ID      string // of the result
}

// newMatrix merges the servers' results. Rows stand in the order of conformance.Cases; what this version does not know
// follows in the order in which it is met.
func newMatrix(servers []server) *matrix {
	var order []string
	for _, c := range conformance.Cases() {
		order = append(order, c.Slug)
	}
	byCase := map[string]*matrixRow{}
	for i, s := range servers {
		for _, part := range s.Sections {
			for _, res := range part.Results {
				r := byCase[res.Slug]
				if r == nil {
					r = &matrixRow{Slug: res.Slug, Level: res.Level, Rule: res.Rule, Cells: make([]cell, len(servers))}
					byCase[res.Slug] = r
				}
				if !slices.Contains(order, res.Slug) {
					order = append(order, res.Slug)
				}
				r.Cells[i] = cell{res.Verdict, note(res), res.ID}
			}
		}
	}
	m := &matrix{Cases: len(byCase)}
	for _, slug := range order {
		r := byCase[slug]
		if r == nil {
			continue
		}
		var words []string
		for _, c := range r.Cells {
			r.Differ = r.Differ || c.Verdict != r.Cells[0].Verdict
			words = append(words, string(c.Verdict))
		}
		r.Summary = strings.Join(words, " ")
		title := sectionTitle(slug)
		i := slices.IndexFunc(m.Sections, func(x *matrixSection) bool { return x.Title == title })
		if i < 0 {
			i = len(m.Sections)
			m.Sections = append(m.Sections, &matrixSection{Title: title})
		}
		m.Sections[i].Rows = append(m.Sections[i].Rows, r)
	}
	return m
}

func note(r *result) string {
	switch {
	case r.Expected == "":
		return ""
	case r.Verdict == conformance.Pass:
		return "expected to fail"
	}
	return "expected"
}
