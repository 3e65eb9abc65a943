package main

import "github.com/redo-go/redo/benchmarks/contest"

// targets returns all of them. A client is compared with peers of the same promise: a new key, a deadline and a body
// that can be rewound. Durable operations are compared as a whole: two Updates of bbolt's to a Reserve and a
// lazy Complete.
func targets() []contest.Target {
	const times, ratio, count, size = "%.2f×", "%.3f×", "%.0f", "%.0f B"
	against := func(who, peer string) func(contest.Outcome) contest.Figure {
		return func(o contest.Outcome) contest.Figure { return o.Ratio(who, peer) }
	}
	more := func(who, than string) func(contest.Outcome) contest.Figure {
		return func(o contest.Outcome) contest.Figure { return contest.Exactly(o.Allocs(who) - o.Allocs(than)) }
	}
	driver, growth := against(byEngine, byRedo), against(byLarge, bySmall)
	var all []contest.Target
	for _, who := range []string{byDo, byBoundedTransport} {
		noLonger := who + " takes no longer than " + byKeyedStandard
		all = append(all,
			contest.AtMost("memory", noLonger, 1, ratio, against(who, byKeyedStandard)),
			contest.AtMost("loopback", noLonger, 1, ratio, against(who, byKeyedStandard)),
			contest.AtMost("loopback", who+" takes at most 3 % longer than "+byKeyedNetHTTP, 1.03, ratio,
				against(who, byKeyedNetHTTP)),
			contest.AtMost("retry", noLonger, 1, ratio, against(who, byKeyedStandard)),
			contest.AtMost("retry-loopback", noLonger, 1, ratio, against(who, byKeyedStandard)),
		)
	}
	return append(all, []contest.Target{
		contest.AtMost("large", "redo.Do holds at most 4 KiB more of 1 MiB than http.Client", 4<<10, size,
			func(o contest.Outcome) contest.Figure {
				return contest.Exactly(o.Bytes(byDo) - o.Bytes(byNetHTTP))
			}),
		contest.AtMost("reserve", "one caller waits at most 1.3 times as long as for bbolt's Update",
			1.3, times, against(byStore, byUpdate)),
		contest.AtLeast("durable-64", "64 callers get at least 10 times the operations of bbolt's Update",
			10, times, against(byUpdate, byStore)),
		contest.AtLeast("redis-first", "64 callers get at least 90 % of the driver's figure with the same scripts",
			0.9, times, driver),
		contest.AtLeast("redis-replay", "64 callers get at least 90 % of the driver's figure with the same script",
			0.9, times, driver),
		contest.AtLeast("postgres-first", "64 callers get at least 90 % of the driver's figure with the same statements",
			0.9, times, driver),
		contest.AtLeast("postgres-replay", "64 callers get at least 90 % of the driver's figure with the same statement",
			0.9, times, driver),
		contest.AtLeast("postgres-effect", "one transaction makes at least 1.3 times the operations of two steps",
			1.3, times, against(byTwoSteps, byTransaction)),
		contest.AtMost("scale-redis-first", "a first run beside many records takes at most 1.5 times as long",
			1.5, times, growth),
		contest.AtMost("scale-redis-replay", "a replay beside many records takes at most 1.5 times as long",
			1.5, times, growth),
		contest.AtMost("scale-redis-purge", "a purge beside many records takes at most 1.5 times as long",
			1.5, times, growth),
		contest.AtMost("scale-postgres-first", "a first run beside many records takes at most 1.5 times as long",
			1.5, times, growth),
		contest.AtMost("scale-postgres-replay", "a replay beside many records takes at most 1.5 times as long",
			1.5, times, growth),
		contest.AtMost("scale-postgres-purge", "a purge beside many records takes at most 1.5 times as long",
			1.5, times, growth),
		contest.AtMost("middleware", "a first run makes at most 21 allocations more than the bare handler", 21, count,
			more(byFirst, byHandler)),
		contest.AtMost("middleware", "a replay makes at most 13 allocations more than the bare handler", 13, count,
			more(byReplay, byHandler)),
	}...)
}
