package contest

import (
	"fmt"
	"io"
)

// write prints a scenario's figures, one line for each contestant. The reference is the contestant with the ratio 1.
func (s Scenario) write(w io.Writer, o Outcome) {
	fmt.Fprintf(w, "%s: %s\n", s.Name, s.Title)
	fmt.Fprintf(w, "%-36s%11s%11s%11s%8s%11s%11s%11s%9s  %s\n",
		"", "ns/op", "min", "max", "spread", "ops/s", "B/op", "allocs/op", "ratio", "half of the rounds")
	for _, c := range s.Contestants {
		t, ratio := o.Time(c.Name), o.Ratio(c.Name, s.Reference)
		perSecond := 0.0
		if t.Median > 0 {
			perSecond = 1e9 / t.Median
		}
		fmt.Fprintf(w, "%-36s%11.0f%11.0f%11.0f%7.0f%%%11.0f%11.0f%11.0f%8.2f×  %.2f× to %.2f×\n",
			c.Name, t.Median, t.Min, t.Max, 100*t.spread(), perSecond,
			o.Bytes(c.Name), o.Allocs(c.Name), ratio.Median, ratio.Lower, ratio.Upper)
	}
	fmt.Fprintln(w)
}

// widest returns the contestant whose rounds lie farthest apart, and the spread.
func (s Scenario) widest(o Outcome) (who string, spread float64) {
	for _, c := range s.Contestants {
		if d := o.Time(c.Name).spread(); d >= spread {
			who, spread = c.Name, d
		}
	}
	return who, spread
}
