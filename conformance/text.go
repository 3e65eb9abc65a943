package conformance

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"
)

// WriteText writes the report for a person: a line for each case, the evidence of each that did not pass, and a
// summary.
func (r Report) WriteText(w io.Writer) error {
	b := bufio.NewWriter(w)
	width := 0
	for _, res := range r.Results {
		width = max(width, len(res.Slug))
	}
	for _, res := range r.Results {
		fmt.Fprintf(b, "%-12s %-6s %-*s  %s\n", res.Verdict, res.Level, width, res.Slug, res.brief())
	}
	for _, res := range r.Results {
		if res.Verdict.broken() || res.Verdict == Harness && len(res.Exchanges) > 0 || res.Verdict == Inconclusive && len(res.Exchanges) > 0 {
			fmt.Fprintln(b)
			res.writeText(b)
		}
	}
	fmt.Fprintf(b, "\n%s, profile %s, seed %d, %v\n", r.BaseURL, r.Profile, r.Seed,
		(time.Duration(r.Micros) * time.Microsecond).Round(time.Millisecond))
	n := r.Count()
	var parts []string
	for _, v := range Verdicts() {
		if n[v] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[v], v))
		}
	}
	fmt.Fprintln(b, strings.Join(parts, ", "))
	if r.Stopped != nil {
		fmt.Fprintf(b, "stopped (%s): %s\n", r.Stopped.Reason, r.Stopped.Message)
	}
	return b.Flush()
}

// brief returns the text that fits in the case's line.
func (r Result) brief() string {
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

func oneLine(s string) string {
	return strings.Join(strings.Fields(s), " ")
}

// String returns the result's evidence as WriteText writes it, without a line break at its end.
func (r Result) String() string {
	var text strings.Builder
	b := bufio.NewWriter(&text)
	r.writeText(b)
	_ = b.Flush() // a strings.Builder never fails
	return strings.TrimSuffix(text.String(), "\n")
}

func (r Result) writeText(b *bufio.Writer) {
	fmt.Fprintf(b, "%s %s: %s\n", strings.ToUpper(string(r.Verdict)), r.Slug, r.Rule)
	fmt.Fprintf(b, "  why       %s\n", r.Why)
	for _, s := range r.Sources {
		level := string(s.Level)
		if level == "" {
			level = "describes it"
		}
		fmt.Fprintf(b, "  source    %s: %s (here %s)\n", s.Ref, level, r.Level)
	}
	if r.Effects != nil {
		fmt.Fprintf(b, "  effects   %d\n", *r.Effects)
	}
	for _, f := range r.Findings {
		if f.Expected != "" {
			fmt.Fprintf(b, "  expected  %s\n", oneLine(f.Expected))
		}
		fmt.Fprintf(b, "  %-9s %s\n", actualOr(f.Verdict), oneLine(f.Actual))
	}
	for _, x := range r.Exchanges {
		fmt.Fprintf(b, "  %9.3f ms  %s: %s %s\n", float64(x.SentMicros)/1000, x.Label, x.Method, x.Path)
		if x.Delivery != "" {
			fmt.Fprintf(b, "             (%s)\n", x.Delivery)
		}
		for _, line := range x.RequestHeader {
			fmt.Fprintf(b, "           > %s\n", line)
		}
		if x.RequestBody != "" {
			fmt.Fprintf(b, "           > %s\n", oneLine(x.RequestBody))
		}
		if x.Error != "" {
			fmt.Fprintf(b, "  %9.3f ms  %s\n", float64(x.DoneMicros)/1000, x.Error)
			continue
		}
		fmt.Fprintf(b, "  %9.3f ms  %d\n", float64(x.DoneMicros)/1000, x.Status)
		for _, line := range x.ResponseHeader {
			fmt.Fprintf(b, "           < %s\n", line)
		}
		if x.ResponseBody != "" {
			fmt.Fprintf(b, "           < %s\n", oneLine(x.ResponseBody))
		}
	}
	if r.Curl != "" {
		fmt.Fprintf(b, "  curl      %s\n", r.Curl)
	}
	if r.Rerun != "" {
		fmt.Fprintf(b, "  rerun     %s\n", r.Rerun)
	}
}

func actualOr(v Verdict) string {
	if v.broken() {
		return "actual"
	}
	return string(v)
}
