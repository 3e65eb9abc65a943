package main

import (
	"fmt"
	"io"
)

// A target is a limit that redo sets itself in a scenario.
type target struct {
	scenario string
	rule     string
	limit    float64
	atLeast  bool   // the limit is a floor, else it is a ceiling
	format   string // of a value
	// value returns the measured figure. Its median is compared with the limit; its quartiles are only printed.
	value func(outcome) figure
}

// targets returns all of them. A client is compared with peers of the same promise: a new key, a deadline and a body
// that can be rewound. Durable operations are compared as a whole: two Updates of bbolt's to a Reserve and a
// lazy Complete.
func targets() []target {
	const times, ratio, count, size = "%.2f×", "%.3f×", "%.0f", "%.0f B"
	growth := func(o outcome) figure { return o.ratio(byLarge, bySmall) }
	against := func(who, peer string) func(outcome) figure {
		return func(o outcome) figure { return o.ratio(who, peer) }
	}
	var all []target
	for _, who := range []string{byDo, byBoundedTransport} {
		noLonger := who + " takes no longer than " + byKeyedStandard
		all = append(all,
			target{"memory", noLonger, 1, false, ratio, against(who, byKeyedStandard)},
			target{"loopback", noLonger, 1, false, ratio, against(who, byKeyedStandard)},
			target{"loopback", who + " takes at most 3 % longer than " + byKeyedNetHTTP, 1.03, false, ratio,
				against(who, byKeyedNetHTTP)},
			target{"retry", noLonger, 1, false, ratio, against(who, byKeyedStandard)},
			target{"retry-loopback", noLonger, 1, false, ratio, against(who, byKeyedStandard)},
		)
	}
	return append(all, []target{
		{"large", "redo.Do holds at most 4 KiB more of 1 MiB than http.Client", 4 << 10, false, size,
			func(o outcome) figure {
				return exactly(o.bytes(byDo) - o.bytes(byNetHTTP))
			}},
		{"reserve", "one caller waits at most 1.3 times as long as for bbolt's Update", 1.3, false, times,
			func(o outcome) figure {
				return o.ratio(byStore, byUpdate)
			}},
		{"durable-64", "64 callers get at least 10 times the operations of bbolt's Update", 10, true, times,
			func(o outcome) figure {
				return o.ratio(byUpdate, byStore)
			}},
		{"redis-first", "64 callers get at least 90 % of the driver's figure with the same scripts", 0.9, true, times,
			func(o outcome) figure {
				return o.ratio(byEngine, byRedo)
			}},
		{"redis-replay", "64 callers get at least 90 % of the driver's figure with the same script", 0.9, true, times,
			func(o outcome) figure {
				return o.ratio(byEngine, byRedo)
			}},
		{"postgres-first", "64 callers get at least 90 % of the driver's figure with the same statements", 0.9, true,
			times, func(o outcome) figure {
				return o.ratio(byEngine, byRedo)
			}},
		{"postgres-replay", "64 callers get at least 90 % of the driver's figure with the same statement", 0.9, true,
			times, func(o outcome) figure {
				return o.ratio(byEngine, byRedo)
			}},
		{
			"scale-redis-first", "a first run beside many records takes at most 1.5 times as long", 1.5, false, times,
			growth,
		},
		{
			"scale-redis-replay", "a replay beside many records takes at most 1.5 times as long", 1.5, false, times,
			growth,
		},
		{"scale-redis-purge", "a purge beside many records takes at most 1.5 times as long", 1.5, false, times, growth},
		{
			"scale-postgres-first", "a first run beside many records takes at most 1.5 times as long", 1.5, false,
			times, growth,
		},
		{
			"scale-postgres-replay", "a replay beside many records takes at most 1.5 times as long", 1.5, false,
			times, growth,
		},
		{
			"scale-postgres-purge", "a purge beside many records takes at most 1.5 times as long", 1.5, false, times,
			growth,
		},
		{"middleware", "a first run makes at most 20 allocations more than the bare handler", 20, false, count,
			func(o outcome) figure {
				return exactly(o.allocs(byFirst) - o.allocs(byHandler))
			}},
		{"middleware", "a replay makes at most 12 allocations more than the bare handler", 12, false, count,
			func(o outcome) figure {
				return exactly(o.allocs(byReplay) - o.allocs(byHandler))
			}},
	}...)
}

func (t target) met(f figure) bool {
	if t.atLeast {
		return f.median >= t.limit
	}
	return f.median <= t.limit
}

// report prints each target with its measured figure, and returns the number of missed ones. A target whose
// scenario was not run is neither met nor missed.
func report(w io.Writer, all []target, played map[string]outcome) (missed int) {
	fmt.Fprintf(w, "targets\n")
	for _, t := range all {
		o, ok := played[t.scenario]
		if !ok {
			fmt.Fprintf(w, "  %-7s %-14s %s\n", "not run", t.scenario, t.rule)
			continue
		}
		f := t.value(o)
		verdict := "ok"
		if !t.met(f) {
			verdict = "MISSED"
			missed++
		}
		value := fmt.Sprintf(t.format, f.median)
		if f.lower != f.upper {
			value += fmt.Sprintf(" (half of the rounds "+t.format+" to "+t.format+")", f.lower, f.upper)
		}
		fmt.Fprintf(w, "  %-7s %-14s %s: %s\n", verdict, t.scenario, t.rule, value)
	}
	return missed
}
