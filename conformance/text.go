package conformance

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Text writes reports for a person. The zero value writes the evidence of each case that did not pass, the reasons why
// other cases were not judged, and the headline. Control characters of a server's responses are escaped.
type Text struct {
	// Strict counts rules of all levels, as in Report.ExitCode.
	Strict bool
	// Verbose lists every case with its verdict.
	Verbose bool
	// Command is the command line that made the report, without the flags that select cases. It starts the rerun lines.
	// An empty Command leaves these lines out.
	Command string
}

// anyCommand is the command line of a report whose origin is unknown.
const anyCommand = "redo check TARGET"

// WriteText writes the report for a person: the evidence of each case that did not pass, a line for each case, and the
// headline.
func (r Report) WriteText(w io.Writer) error {
	return Text{Verbose: true, Command: anyCommand}.Write(w, r)
}

// String returns the result's evidence as WriteText writes it, without a line break at its end.
func (r Result) String() string { return Text{Command: anyCommand}.Evidence(r) }

// Write writes a report, or a matrix of several reports.
func (o Text) Write(w io.Writer, reports ...Report) error {
	var b strings.Builder
	if len(reports) == 1 {
		o.writeReport(&b, reports[0])
	} else {
		o.writeMatrix(&b, reports)
	}
	_, err := io.WriteString(w, harmless(b.String()))
	return err
}

func (o Text) writeReport(b *strings.Builder, r Report) {
	for _, res := range r.Results {
		if res.hasEvidence() {
			fmt.Fprintf(b, "%s\n\n", o.evidence(res))
		}
	}
	if o.Verbose {
		writeCases(b, r)
	} else {
		writeUnjudged(b, r)
	}
	fmt.Fprintf(b, "%s, profile %s, seed %d, %v\n", r.Subject(), r.Profile, r.Seed,
		(time.Duration(r.Micros) * time.Microsecond).Round(time.Millisecond))
	fmt.Fprintln(b, r.Tally())
	if r.Stopped != nil {
		fmt.Fprintf(b, "ended early (%s): %s\n", r.Stopped.Reason, oneLine(r.Stopped.Message))
	}
	fmt.Fprintln(b, r.Headline(o.Strict))
}

// Evidence returns a result with its findings and exchanges, without a line break at its end.
func (o Text) Evidence(res Result) string { return harmless(o.evidence(res)) }

// Brief returns the reason for a result in one line. It is empty for a result that has nothing to report.
func (r Result) Brief() string {
	text := r.Reason
	if text == "" && len(r.Findings) > 0 {
		text = r.Findings[0].Actual
		if expected := r.Findings[0].Expected; expected != "" {
			text += "; expected " + expected
		}
	}
	switch {
	case r.Expected != "" && r.Verdict == Pass:
		text = "passes, but is expected to fail: " + r.Expected
	case r.Expected != "":
		text = "expected (" + r.Expected + "): " + text
	}
	return oneLine(text)
}

// Subject returns the name and the URL of the report's target, as far as the report has them.
func (r Report) Subject() string {
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

// Tally returns the number of results of each verdict, in words.
func (r Report) Tally() string {
	n := r.Count()
	var parts []string
	for _, v := range Verdicts() {
		if n[v] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[v], v))
		}
	}
	if len(parts) == 0 {
		return "no case was run"
	}
	return strings.Join(parts, ", ")
}

// hasEvidence reports whether a text report shows the result's evidence.
func (r Result) hasEvidence() bool {
	switch r.Verdict {
	case Fail, Warn:
		return true
	case Inconclusive, Harness:
		return len(r.Exchanges) > 0
	case Pass:
		return r.Expected != ""
	}
	return false
}

func (o Text) evidence(res Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s\n", strings.ToUpper(string(res.Verdict)), res.Slug, res.Rule)
	line := func(label, text string) {
		if text != "" {
			fmt.Fprintf(&b, "  %-9s %s\n", label, oneLine(text))
		}
	}
	line("why", res.Why)
	for _, s := range res.Sources {
		level := string(s.Level)
		if level == "" {
			level = "describes it"
		}
		line("source", fmt.Sprintf("%s: %s (here %s)", s.Ref, level, res.Level))
	}
	line("known", res.Expected)
	if res.Verdict == Pass && res.Expected != "" {
		line("actual", "it passes now: remove it from the baseline")
	}
	if res.Effects != nil {
		line("effects", fmt.Sprint(*res.Effects))
	}
	for _, f := range res.Findings {
		line("expected", f.Expected)
		if f.Verdict.broken() {
			line("actual", f.Actual)
		} else {
			line(string(f.Verdict), f.Actual)
		}
	}
	if len(res.Findings) == 0 {
		line("reason", res.Reason)
	}
	writeExchanges(&b, res.Exchanges)
	line("curl", res.Curl)
	if res.Rerun != "" && o.Command != "" {
		line("rerun", o.Command+" "+res.Rerun)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// The text has the first and the last exchanges of a case.
const (
	firstShown = 6
	lastShown  = 2
)

// deep is the indent of an exchange's lines.
const deep = "                "

// writeExchanges writes the messages on the wire, with the time since the case began. A request or a response that is
// equal to an earlier one is a reference to it.
func writeExchanges(b *strings.Builder, exchanges []*Exchange) {
	at := func(micros int64) string { return fmt.Sprintf("%.3f ms", float64(micros)/1000) }
	seen := map[string]int64{}
	message := func(mark string, micros int64, lines []string, body string) {
		if body != "" {
			lines = append(slices.Clone(lines), body)
		}
		key := mark + strings.Join(lines, "\n")
		if first, ok := seen[key]; ok && len(lines) > 1 {
			fmt.Fprintf(b, "%s%s the same as at %s\n", deep, mark, at(first))
			return
		}
		seen[key] = micros
		for _, line := range lines {
			fmt.Fprintf(b, "%s%s %s\n", deep, mark, oneLine(line))
		}
	}
	for i, x := range exchanges {
		if hidden := len(exchanges) - firstShown - lastShown; hidden > 1 && i >= firstShown && i < firstShown+hidden {
			if i == firstShown {
				fmt.Fprintf(b, "%s... %d more exchanges, which the JSON form has\n", deep, hidden)
			}
			continue
		}
		fmt.Fprintf(b, "  %12s  %s: %s %s\n", at(x.SentMicros), x.Label, x.Method, x.Path)
		if x.Delivery != "" {
			fmt.Fprintf(b, "%s(%s)\n", deep, x.Delivery)
		}
		message(">", x.SentMicros, x.RequestHeader, x.RequestBody)
		for _, status := range x.Interim {
			fmt.Fprintf(b, "%s< %d\n", deep, status)
		}
		if x.Status != 0 {
			fmt.Fprintf(b, "  %12s  %d\n", at(x.DoneMicros), x.Status)
			message("<", x.DoneMicros, x.ResponseHeader, x.ResponseBody)
		}
		if x.Error != "" {
			fmt.Fprintf(b, "  %12s  %s\n", at(x.DoneMicros), oneLine(x.Error))
		}
	}
}

// writeCases writes a line for each case.
func writeCases(b *strings.Builder, r Report) {
	width := 0
	for _, res := range r.Results {
		width = max(width, len(res.Slug))
	}
	for _, res := range r.Results {
		line := fmt.Sprintf("%-12s %-6s %-*s  %s", res.Verdict, res.Level, width, res.Slug, res.Brief())
		fmt.Fprintln(b, strings.TrimRight(line, " "))
	}
	fmt.Fprintln(b)
}

// These constants join the undeclared needs to the reason of a skipped case.
const (
	undeclared    = "the target does not declare "
	undeclaredToo = ", nor "
)

// writeUnjudged writes the cases that were not judged, grouped by their reason. All undeclared needs share one line.
func writeUnjudged(b *strings.Builder, r Report) {
	skipped := 0
	var missing []string
	type group struct {
		verdict Verdict
		reason  string
	}
	var order []group
	slugs := map[group][]string{}
	for _, res := range r.Results {
		if res.Verdict == Pass || res.hasEvidence() {
			continue
		}
		if needs, ok := strings.CutPrefix(res.Brief(), undeclared); ok {
			skipped++
			for need := range strings.SplitSeq(needs, undeclaredToo) {
				if !slices.Contains(missing, need) {
					missing = append(missing, need)
				}
			}
			continue
		}
		g := group{res.Verdict, res.Brief()}
		if g.reason == "" {
			g.reason = "nothing to report"
		}
		if slugs[g] == nil {
			order = append(order, g)
		}
		slugs[g] = append(slugs[g], res.Slug)
	}
	for _, g := range order {
		fmt.Fprintf(b, "%-12s %s (%s)\n", g.verdict, g.reason, strings.Join(slugs[g], ", "))
	}
	if skipped > 0 {
		fmt.Fprintf(b, "%-12s %d not declared: %s (--verbose lists the cases)\n", Skip, skipped,
			strings.Join(missing, ", "))
	}
	if len(order) > 0 || skipped > 0 {
		fmt.Fprintln(b)
	}
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// harmless escapes the characters that a terminal obeys, or that change the order in which it shows text.
func harmless(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
