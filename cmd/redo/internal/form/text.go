package form

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/redo-go/redo/conformance"
)

// Text writes a report for a person: what was found with its evidence, what could not be tried and why, and what it comes
// to. Several reports are a matrix. Reports hold what servers have answered, so what would steer a terminal is escaped.
func Text(w io.Writer, o Options, reports ...conformance.Report) error {
	var b strings.Builder
	if len(reports) == 1 {
		texter{&b, o}.report(reports[0])
	} else {
		matrix(&b, o, reports)
	}
	_, err := io.WriteString(w, o.harmless(b.String()))
	return err
}

type texter struct {
	io.Writer
	Options
}

func (t texter) report(r conformance.Report) {
	for _, res := range r.Results {
		if explained(res) {
			t.explain(res)
		}
	}
	if t.Verbose {
		t.cases(r)
	} else {
		t.leftOver(r)
	}
	fmt.Fprintf(t, "%s, profile %s, seed %d, %v\n", named(r), r.Profile, r.Seed,
		(time.Duration(r.Micros) * time.Microsecond).Round(time.Millisecond))
	fmt.Fprintln(t, tally(r))
	if r.Stopped != nil {
		fmt.Fprintf(t, "ended early (%s): %s\n", r.Stopped.Reason, oneLine(r.Stopped.Message))
	}
	fmt.Fprintln(t, t.conclusion(r))
}

// explained reports whether a result needs its evidence to be shown.
func explained(res conformance.Result) bool {
	switch res.Verdict {
	case conformance.Fail, conformance.Warn:
		return true
	case conformance.Inconclusive, conformance.Harness:
		return len(res.Exchanges) > 0
	case conformance.Pass:
		return res.Expected != ""
	}
	return false
}

// explain writes a result with its evidence.
func (t texter) explain(res conformance.Result) {
	fmt.Fprintf(t, "%s %s: %s\n", t.paint(res.Verdict, strings.ToUpper(string(res.Verdict))), res.Slug, res.Rule)
	line := func(label, text string) {
		if text != "" {
			fmt.Fprintf(t, "  %-9s %s\n", label, oneLine(text))
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
	if res.Verdict == conformance.Pass {
		line("actual", "it passes now: take it out of the baseline")
	}
	if res.Effects != nil {
		line("effects", fmt.Sprint(*res.Effects))
	}
	for _, f := range res.Findings {
		line("expected", f.Expected)
		line("actual", f.Actual)
	}
	if len(res.Findings) == 0 {
		line("reason", res.Reason)
	}
	for i, x := range res.Exchanges {
		const first, last = 6, 2
		switch hidden := len(res.Exchanges) - first - last; {
		case hidden <= 1 || i < first || i >= first+hidden:
			t.exchange(x)
		case i == first:
			fmt.Fprintf(t, "                ... %d exchanges more: --format json has them all\n", hidden)
		}
	}
	line("curl", res.Curl)
	if res.Rerun != "" && t.Command != "" {
		line("rerun", t.Command+" "+res.Rerun)
	}
	fmt.Fprintln(t)
}

// exchange writes what was on the wire, with the time since the case began.
func (t texter) exchange(x *conformance.Exchange) {
	at := func(micros int64) string { return fmt.Sprintf("  %9.3f ms  ", float64(micros)/1000) }
	const deep = "                "
	fmt.Fprintf(t, "%s%s: %s %s\n", at(x.SentMicros), x.Label, x.Method, x.Path)
	if x.Delivery != "" {
		fmt.Fprintf(t, "%s(%s)\n", deep, x.Delivery)
	}
	lines := func(mark string, header []string, body string) {
		for _, h := range header {
			fmt.Fprintf(t, "%s%s %s\n", deep, mark, h)
		}
		if body != "" {
			fmt.Fprintf(t, "%s%s %s\n", deep, mark, oneLine(body))
		}
	}
	lines(">", x.RequestHeader, x.RequestBody)
	for _, status := range x.Interim {
		fmt.Fprintf(t, "%s< %d\n", deep, status)
	}
	if x.Status != 0 {
		fmt.Fprintf(t, "%s%d\n", at(x.DoneMicros), x.Status)
		lines("<", x.ResponseHeader, x.ResponseBody)
	}
	if x.Error != "" {
		fmt.Fprintf(t, "%s%s\n", at(x.DoneMicros), oneLine(x.Error))
	}
}

// cases writes a line for each case.
func (t texter) cases(r conformance.Report) {
	width := 0
	for _, res := range r.Results {
		width = max(width, len(res.Slug))
	}
	for _, res := range r.Results {
		line := fmt.Sprintf("%s %-6s %-*s  %s", t.paint(res.Verdict, fmt.Sprintf("%-12s", res.Verdict)), res.Level, width, res.Slug, brief(res))
		fmt.Fprintln(t, strings.TrimRight(line, " "))
	}
	fmt.Fprintln(t)
}

// leftOver writes the cases that were not judged, grouped by their reason. All cases that the target does not declare
// share one line: a target that declares little has many.
func (t texter) leftOver(r conformance.Report) {
	skipped := 0
	var missing []string
	type why struct {
		verdict conformance.Verdict
		reason  string
	}
	var order []why
	slugs := map[why][]string{}
	for _, res := range r.Results {
		if res.Verdict == conformance.Pass || explained(res) {
			continue
		}
		if needs, ok := strings.CutPrefix(brief(res), "the target does not declare "); ok {
			skipped++
			for need := range strings.SplitSeq(needs, ", nor ") {
				if !slices.Contains(missing, need) {
					missing = append(missing, need)
				}
			}
			continue
		}
		k := why{res.Verdict, brief(res)}
		if slugs[k] == nil {
			order = append(order, k)
		}
		slugs[k] = append(slugs[k], res.Slug)
	}
	for _, k := range order {
		reason := k.reason
		if reason == "" {
			reason = "nothing to report"
		}
		fmt.Fprintf(t, "%s %s (%s)\n", t.paint(k.verdict, fmt.Sprintf("%-12s", k.verdict)), reason, strings.Join(slugs[k], ", "))
	}
	if skipped > 0 {
		fmt.Fprintf(t, "%s %d not declared: %s (--verbose lists the cases)\n",
			t.paint(conformance.Skip, fmt.Sprintf("%-12s", conformance.Skip)), skipped, strings.Join(missing, ", "))
	}
	if len(order) > 0 || skipped > 0 {
		fmt.Fprintln(t)
	}
}

// tally counts the verdicts.
func tally(r conformance.Report) string {
	n := r.Count()
	var parts []string
	for _, v := range conformance.Verdicts() {
		if n[v] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[v], v))
		}
	}
	if len(parts) == 0 {
		return "no case was run"
	}
	return strings.Join(parts, ", ")
}

// conclusion is the headline, with its outcome in colour.
func (o Options) conclusion(r conformance.Report) string {
	outcome := r.Outcome(o.Strict)
	rest := strings.TrimPrefix(r.Headline(o.Strict), string(outcome))
	return o.paint(shades[outcome], string(outcome)) + rest
}

// shades are the verdicts whose colours the outcomes have.
var shades = map[conformance.Outcome]conformance.Verdict{
	conformance.Conforms: conformance.Pass, conformance.Deviates: conformance.Fail,
	conformance.Unproven: conformance.Inconclusive, conformance.LittleTried: conformance.Warn,
}

// Colours of verdicts, as SGR parameters (ECMA-48 8.3.117).
var sgr = map[conformance.Verdict]string{
	conformance.Pass: "32", conformance.Fail: "1;31", conformance.Warn: "33",
	conformance.Inconclusive: "35", conformance.Harness: "1;35",
}

func (o Options) paint(v conformance.Verdict, text string) string {
	if !o.Colors || sgr[v] == "" {
		return text
	}
	return "\x1b[" + sgr[v] + "m" + text + "\x1b[0m"
}

// harmless escapes what a terminal would obey, or show in another order than it stands. Where there are colours, they are
// let through: somebody else's do no harm.
func (o Options) harmless(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r == escape && o.Colors && color.MatchString(s[i:min(len(s), i+12)]):
			b.WriteRune(r)
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r):
			fmt.Fprintf(&b, "\\u%04x", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

const escape = '\x1b'

var color = regexp.MustCompile("^\x1b\\[[0-9;]*m")
