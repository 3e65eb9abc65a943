package contest

import (
	"fmt"
	"io"
)

// A Target is a limit that redo sets itself in a scenario. Create one with AtMost or AtLeast.
type Target struct {
	Scenario string
	Rule     string
	// Value returns the measured figure. Its median is compared with the limit; its quartiles are only printed.
	Value func(Outcome) Figure

	limit  float64
	floor  bool   // otherwise the limit is a ceiling
	format string // of a value
}

// AtMost returns a target whose limit is a ceiling. format prints a value.
func AtMost(scenario, rule string, limit float64, format string, value func(Outcome) Figure) Target {
	return Target{Scenario: scenario, Rule: rule, Value: value, limit: limit, format: format}
}

// AtLeast returns a target whose limit is a floor. format prints a value.
func AtLeast(scenario, rule string, limit float64, format string, value func(Outcome) Figure) Target {
	return Target{Scenario: scenario, Rule: rule, Value: value, limit: limit, format: format, floor: true}
}

func (t Target) met(f Figure) bool {
	if t.floor {
		return f.Median >= t.limit
	}
	return f.Median <= t.limit
}

// report prints each target with its measured figure, and returns the number of missed ones. A target whose
// scenario was not run is neither met nor missed.
func report(w io.Writer, all []Target, played map[string]Outcome) (missed int) {
	if len(all) == 0 {
		return 0
	}
	fmt.Fprintf(w, "targets\n")
	for _, t := range all {
		o, ok := played[t.Scenario]
		if !ok {
			fmt.Fprintf(w, "  %-7s %-14s %s\n", "not run", t.Scenario, t.Rule)
			continue
		}
		f := t.Value(o)
		verdict := "ok"
		if !t.met(f) {
			verdict = "MISSED"
			missed++
		}
		value := fmt.Sprintf(t.format, f.Median)
		if f.Lower != f.Upper {
			value += fmt.Sprintf(" (half of the rounds "+t.format+" to "+t.format+")", f.Lower, f.Upper)
		}
		fmt.Fprintf(w, "  %-7s %-14s %s: %s\n", verdict, t.Scenario, t.Rule, value)
	}
	return missed
}
