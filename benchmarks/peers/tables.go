package main

import (
	"fmt"
	"strings"

	"github.com/redo-go/redo/benchmarks/contest"
)

// blocks returns the tables of docs/performance.md whose scenarios were all measured.
func blocks(played map[string]contest.Outcome) []contest.Block {
	var found []contest.Block
	for _, t := range []table{clientTable(), durableTable(), middlewareTable()} {
		if text, ok := t.markdown(played); ok {
			found = append(found, contest.Block{Name: t.name, Text: text})
		}
	}
	return found
}

// A table has a row for each contestant of its first column's scenario.
type table struct {
	name    string
	title   string // of the first column
	columns []column
}

// A column is a figure of one scenario.
type column struct {
	title    string
	scenario contest.Scenario
	cell     func(o contest.Outcome, who, reference string) string
}

// markdown returns the table with a line for the machine. ok is false if a scenario was not measured.
func (t table) markdown(played map[string]contest.Outcome) (text string, ok bool) {
	rows := [][]string{{t.title}}
	for _, who := range t.columns[0].scenario.Contestants {
		rows = append(rows, []string{who.Name})
	}
	for _, c := range t.columns {
		o, ok := played[c.scenario.Name]
		if !ok {
			return "", false
		}
		rows[0] = append(rows[0], c.title)
		for i, row := range rows[1:] {
			cell := "–"
			if len(o[row[0]]) > 0 {
				cell = c.cell(o, row[0], c.scenario.Reference)
			}
			rows[i+1] = append(row, cell)
		}
	}
	return fmt.Sprintf("On %s:\n\n%s", contest.Caption(), markdown(rows)), true
}

// markdown returns a table. The first row is its head.
func markdown(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(&b, "|%s\n", strings.Repeat("---|", len(row)))
		}
	}
	return b.String()
}

func nanoseconds(o contest.Outcome, who, reference string) string {
	return fmt.Sprintf("%s%s", thousands(o.Time(who).Median), beside(o, who, reference))
}

func microseconds(o contest.Outcome, who, reference string) string {
	return fmt.Sprintf("%.1f%s", o.Time(who).Median/1e3, beside(o, who, reference))
}

func perSecond(o contest.Outcome, who, reference string) string {
	return fmt.Sprintf("%s%s", thousands(1e9/o.Time(who).Median), beside(o, who, reference))
}

func allocations(o contest.Outcome, who, _ string) string { return fmt.Sprintf("%.0f", o.Allocs(who)) }

// beside returns the ratio of the times to the reference, and nothing for the reference. Its range is half of the
// rounds.
func beside(o contest.Outcome, who, reference string) string {
	if who == reference {
		return ""
	}
	r := o.Ratio(who, reference)
	return fmt.Sprintf(" (%.2f–%.2f×)", r.Lower, r.Upper)
}

// thousands returns a whole number with commas.
func thousands(v float64) string {
	digits := fmt.Sprintf("%.0f", v)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func clientTable() table {
	all := clientScenarios()
	return table{"clients", "A 256-byte POST with a new key and a deadline", []column{
		{"in memory, ns", all[0], nanoseconds},
		{"allocations", all[0], allocations},
		{"over loopback, µs", all[1], microseconds},
		{"503 then 201 in memory, ns", all[2], nanoseconds},
		{"503 then 201 over loopback, µs", all[3], microseconds},
	}}
}

func durableTable() table {
	return table{"durable", "Saved, then completed, both durably", []column{
		{"1 caller, µs", durableScenario(1), microseconds},
		{"64 callers, operations/s", durableScenario(64), perSecond},
	}}
}

func middlewareTable() table {
	return table{"middleware", "A 256-byte POST over loopback", []column{
		{"first run, µs", middlewareScenario(1, false), microseconds},
		{"replay, µs", middlewareScenario(1, true), microseconds},
		{"first run, 64 connections, requests/s", middlewareScenario(64, false), perSecond},
		{"replay, 64 connections, requests/s", middlewareScenario(64, true), perSecond},
	}}
}
