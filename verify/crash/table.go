package main

import (
	"fmt"
	"io"
	"strings"
)

// columns are those of the table in docs/proof.md.
var columns = []struct {
	title string
	value func(t *tally) int
}{
	{"Kills", func(t *tally) int { return t.Kills }},
	{"Stops", func(t *tally) int { return t.Stops }},
	{"Of the engine", func(t *tally) int { return t.EngineKills + t.EngineStops }},
	{"Operations", func(t *tally) int { return t.Operations }},
	{"Effects", func(t *tally) int { return t.Effects }},
	{"Events", func(t *tally) int { return t.Handled }},
	{"Taken over", func(t *tally) int { return t.TakenOver }},
	{"Refused", func(t *tally) int { return t.Refused }},
	{"In the gap", func(t *tally) int { return t.Gap }},
	{"Duplicates", func(t *tally) int { return t.Duplicates }},
	{"Losses", func(t *tally) int { return t.Losses }},
	{"Changed responses", func(t *tally) int { return t.ChangedResponses }},
	{"Changed keys", func(t *tally) int { return t.ChangedKeys }},
	{"Stuck", func(t *tally) int { return t.Stuck }},
	{"Not applied", func(t *tally) int { return t.Unapplied }},
	{"Wrongly so", func(t *tally) int { return t.WrongReports }},
}

// table prints the tallies of all modes as Markdown.
func (s *state) table(out io.Writer) {
	fmt.Fprint(out, "| Store | Mode |")
	for _, c := range columns {
		fmt.Fprintf(out, " %s |", c.title)
	}
	fmt.Fprintf(out, "\n|---|---|%s\n", strings.Repeat("---|", len(columns)))
	for _, m := range modes {
		t := s.Modes[m.name]
		if t == nil {
			continue
		}
		fmt.Fprintf(out, "| %s | %s |", s.Store, m.title)
		for _, c := range columns {
			fmt.Fprintf(out, " %d |", c.value(t))
		}
		fmt.Fprintln(out)
	}
}
