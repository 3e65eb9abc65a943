package contest

import (
	"math"
	"slices"
)

// A Sample is one contestant's figures in one round, each per operation.
type Sample struct {
	N      int // operations in the round
	Ns     float64
	Bytes  float64
	Allocs float64
}

// A Figure sums up the values of several rounds. Half of the rounds lie between Lower and Upper, the quartiles.
type Figure struct{ Median, Min, Max, Lower, Upper float64 }

// figureOf returns the figure of some values. It is zero if there are none.
func figureOf(values []float64) Figure {
	if len(values) == 0 {
		return Figure{}
	}
	sorted := slices.Sorted(slices.Values(values))
	// quantile interpolates between the two nearest values.
	quantile := func(share float64) float64 {
		at := share * float64(len(sorted)-1)
		i := int(at)
		j := min(i+1, len(sorted)-1)
		return sorted[i] + (at-float64(i))*(sorted[j]-sorted[i])
	}
	return Figure{quantile(0.5), sorted[0], sorted[len(sorted)-1], quantile(0.25), quantile(0.75)}
}

// Exactly returns the figure of a value that is the same in all rounds.
func Exactly(v float64) Figure { return Figure{v, v, v, v, v} }

// spread is the distance between the least and the greatest round, as a share of the median.
func (f Figure) spread() float64 {
	if f.Median == 0 {
		return 0
	}
	return (f.Max - f.Min) / f.Median
}

// An Outcome holds the samples of a scenario: each contestant's, in the order of the rounds.
type Outcome map[string][]Sample

func each(samples []Sample, field func(Sample) float64) []float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = field(s)
	}
	return values
}

// Time returns the nanoseconds of an operation. It is zero for a contestant that was not measured, as the others are.
func (o Outcome) Time(who string) Figure {
	return figureOf(each(o[who], func(s Sample) float64 { return s.Ns }))
}

// Bytes returns the median of the bytes that an operation allocates.
func (o Outcome) Bytes(who string) float64 {
	return figureOf(each(o[who], func(s Sample) float64 { return s.Bytes })).Median
}

// Allocs returns the median of an operation's allocations. It is a whole number: the rest is the runtime's, or is
// shared by many operations.
func (o Outcome) Allocs(who string) float64 {
	return math.Round(figureOf(each(o[who], func(s Sample) float64 { return s.Allocs })).Median)
}

// Ratio compares two contestants' times within each round, so that a slow moment of the machine meets both.
func (o Outcome) Ratio(who, to string) Figure {
	a, b := o[who], o[to]
	values := make([]float64, 0, len(a))
	for i := range min(len(a), len(b)) {
		if b[i].Ns > 0 {
			values = append(values, a[i].Ns/b[i].Ns)
		}
	}
	return figureOf(values)
}
