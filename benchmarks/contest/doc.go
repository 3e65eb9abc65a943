// Package contest measures contestants in turn. A program lists [Scenario] values and calls [Program.Run]. Its tests
// call [Bench], [Check] and [CheckNames].
//
// In each scenario the contestants take turns, round after round, so that other load on the machine meets all of them.
// Every other round goes backwards. A figure is the median over the rounds, with the least and the greatest beside it.
// A ratio is the median of the ratios within each round, with its quartiles beside it. With -benchstat FILE each round
// is also a line for benchstat.
//
// The package belongs to the benchmarks, and is never released.
package contest
