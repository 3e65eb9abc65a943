package main

import (
	"fmt"
	"io"
)

// write prints a scenario's figures, one line for each contestant. The reference is the contestant with the ratio 1.
func (s scenario) write(w io.Writer, o outcome) {
	fmt.Fprintf(w, "%s: %s\n", s.name, s.title)
	fmt.Fprintf(w, "%-36s%11s%11s%11s%8s%11s%11s%11s%9s  %s\n",
		"", "ns/op", "min", "max", "spread", "ops/s", "B/op", "allocs/op", "ratio", "half of the rounds")
	for _, c := range s.contestants {
		t, ratio := o.time(c.name), o.ratio(c.name, s.reference)
		perSecond := 0.0
		if t.median > 0 {
			perSecond = 1e9 / t.median
		}
		fmt.Fprintf(w, "%-36s%11.0f%11.0f%11.0f%7.0f%%%11.0f%11.0f%11.0f%8.2f×  %.2f× to %.2f×\n",
			c.name, t.median, t.min, t.max, 100*t.spread(), perSecond,
			o.bytes(c.name), o.allocs(c.name), ratio.median, ratio.lower, ratio.upper)
	}
	fmt.Fprintln(w)
}

// widest returns the contestant whose rounds lie farthest apart, and the spread.
func (s scenario) widest(o outcome) (who string, spread float64) {
	for _, c := range s.contestants {
		if d := o.time(c.name).spread(); d >= spread {
			who, spread = c.name, d
		}
	}
	return who, spread
}
