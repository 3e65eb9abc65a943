package main

import (
	"fmt"
	"io"
)

// A target is what redo promises itself of a scenario.
type target struct {
	scenario string
	rule     string
	limit    float64
	atLeast  bool   // the limit is a floor, else it is a ceiling
	format   string // of a value
	// value is what was measured; its least and greatest count for nothing but the print.
	value func(outcome) figure
}

// targets returns all of them. Durable operations are compared as a whole: two Updates of bbolt's to a Reserve and a
// lazy Complete.
func targets() []target {
	const times, count, size = "%.2f×", "%.0f", "%.0f B"
	growth := func(o outcome) figure { return o.ratio(byLarge, bySmall) }
	only := func(v float64) figure { return figure{v, v, v} }
	return []target{
		{"memory", "redo.Do takes no longer than StandardClient", 1, false, times, func(o outcome) figure {
			return o.ratio(byDo, byStandardClient)
		}},
		{"memory", "redo.Do makes at most 24 allocations", 24, false, count, func(o outcome) figure {
			return only(o.allocs(byDo))
		}},
		{"memory", "redo.Transport takes no longer than StandardClient", 1, false, times, func(o outcome) figure {
			return o.ratio(byTransport, byStandardClient)
		}},
		{"memory", "redo.Transport makes no more allocations than StandardClient", 1, false, times, func(o outcome) figure {
			return only(o.allocs(byTransport) / o.allocs(byStandardClient))
		}},
		{"large", "redo.Do holds at most 4 KiB more of 1 MiB than http.Client", 4 << 10, false, size, func(o outcome) figure {
			return only(o.bytes(byDo) - o.bytes(byNetHTTP))
		}},
		{"reserve", "one caller waits at most 1.3 times as long as for bbolt's Update", 1.3, false, times, func(o outcome) figure {
			return o.ratio(byStore, byUpdate)
		}},
		{"durable-64", "64 callers get at least 10 times the operations of bbolt's Update", 10, true, times, func(o outcome) figure {
			return o.ratio(byUpdate, byStore)
		}},
		{"redis-first", "64 callers get at least 90 % of what the driver gets with the same scripts", 0.9, true, times, func(o outcome) figure {
			return o.ratio(byEngine, byRedo)
		}},
		{"redis-replay", "64 callers get at least 90 % of what the driver gets with the same script", 0.9, true, times, func(o outcome) figure {
			return o.ratio(byEngine, byRedo)
		}},
		{"postgres-first", "64 callers get at least 90 % of what the driver gets with the same statements", 0.9, true, times, func(o outcome) figure {
			return o.ratio(byEngine, byRedo)
		}},
		{"postgres-replay", "64 callers get at least 90 % of what the driver gets with the same statement", 0.9, true, times, func(o outcome) figure {
			return o.ratio(byEngine, byRedo)
		}},
		{"scale-redis-first", "a first run beside many records takes at most 1.5 times as long", 1.5, false, times, growth},
		{"scale-redis-replay", "a replay beside many records takes at most 1.5 times as long", 1.5, false, times, growth},
		{"scale-redis-purge", "a purge beside many records takes at most 1.5 times as long", 1.5, false, times, growth},
		{"scale-postgres-first", "a first run beside many records takes at most 1.5 times as long", 1.5, false, times, growth},
		{"scale-postgres-replay", "a replay beside many records takes at most 1.5 times as long", 1.5, false, times, growth},
		{"scale-postgres-purge", "a purge beside many records takes at most 1.5 times as long", 1.5, false, times, growth},
		{"middleware", "a first run makes at most 20 allocations more than the bare handler", 20, false, count, func(o outcome) figure {
			return only(o.allocs(byFirst) - o.allocs(byHandler))
		}},
		{"middleware", "a replay makes at most 12 allocations more than the bare handler", 12, false, count, func(o outcome) figure {
			return only(o.allocs(byReplay) - o.allocs(byHandler))
		}},
	}
}

func (t target) met(f figure) bool {
	if t.atLeast {
		return f.median >= t.limit
	}
	return f.median <= t.limit
}

// report prints each target with what was measured of it, and returns how many were missed. A target whose scenario
// was not run is neither met nor missed.
func report(w io.Writer, all []target, played map[string]outcome) (missed int) {
	fmt.Fprintf(w, "targets\n")
	for _, t := range all {
		o, ok := played[t.scenario]
		if !ok {
			fmt.Fprintf(w, "  %-7s %-10s %s\n", "not run", t.scenario, t.rule)
			continue
		}
		f := t.value(o)
		verdict := "ok"
		if !t.met(f) {
			verdict = "MISSED"
			missed++
		}
		value := fmt.Sprintf(t.format, f.median)
		if f.min != f.max {
			value += fmt.Sprintf(" (%s to %s)", fmt.Sprintf(t.format, f.min), fmt.Sprintf(t.format, f.max))
		}
		fmt.Fprintf(w, "  %-7s %-10s %s: %s\n", verdict, t.scenario, t.rule, value)
	}
	return missed
}
