package main

import (
	"fmt"
	"io"
)

// write prints what a scenario's rounds gave, a line for each contestant. The reference is the one whose ratio is 1.
func (s scenario) write(w io.Writer, o outcome) {
	fmt.Fprintf(w, "%s: %s\n", s.name, s.title)
	fmt.Fprintf(w, "%-32s%11s%11s%11s%8s%11s%11s%11s%9s\n", "", "ns/op", "min", "max", "spread", "ops/s", "B/op", "allocs/op", "ratio")
	for _, c := range s.contestants {
		t := o.time(c.name)
		perSecond := 0.0
		if t.median > 0 {
			perSecond = 1e9 / t.median
		}
		fmt.Fprintf(w, "%-32s%11.0f%11.0f%11.0f%7.0f%%%11.0f%11.0f%11.0f%8.2f×\n",
			c.name, t.median, t.min, t.max, 100*t.spread(), perSecond,
			o.bytes(c.name), o.allocs(c.name), o.ratio(c.name, s.reference).median)
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
