package main

import (
	"math"
	"slices"
)

// A sample is one contestant's figures in one round, each per operation.
type sample struct {
	ns     float64
	bytes  float64
	allocs float64
}

// A figure sums up the values of several rounds. Half of the rounds lie between lower and upper, the quartiles.
type figure struct{ median, min, max, lower, upper float64 }

// figureOf returns the figure of some values. It is zero if there are none.
func figureOf(values []float64) figure {
	if len(values) == 0 {
		return figure{}
	}
	sorted := slices.Sorted(slices.Values(values))
	// quantile interpolates between the two nearest values.
	quantile := func(share float64) float64 {
		at := share * float64(len(sorted)-1)
		i := int(at)
		j := min(i+1, len(sorted)-1)
		return sorted[i] + (at-float64(i))*(sorted[j]-sorted[i])
	}
	return figure{quantile(0.5), sorted[0], sorted[len(sorted)-1], quantile(0.25), quantile(0.75)}
}

// exactly returns the figure of a value that is the same in all rounds.
func exactly(v float64) figure { return figure{v, v, v, v, v} }

// spread is the distance between the least and the greatest round, as a share of the median.
func (f figure) spread() float64 {
	if f.median == 0 {
		return 0
	}
	return (f.max - f.min) / f.median
}

// An outcome holds the samples of a scenario: each contestant's, in the order of the rounds.
type outcome map[string][]sample

func each(samples []sample, field func(sample) float64) []float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = field(s)
	}
	return values
}

func (o outcome) time(who string) figure {
	return figureOf(each(o[who], func(s sample) float64 { return s.ns }))
}

func (o outcome) bytes(who string) float64 {
	return figureOf(each(o[who], func(s sample) float64 { return s.bytes })).median
}

// allocs is a whole number: the rest is the runtime's, or is shared by many operations.
func (o outcome) allocs(who string) float64 {
	return math.Round(figureOf(each(o[who], func(s sample) float64 { return s.allocs })).median)
}

// ratio compares two contestants' times within each round, so that a slow moment of the machine meets both.
func (o outcome) ratio(who, to string) figure {
	a, b := o[who], o[to]
	values := make([]float64, 0, len(a))
	for i := range min(len(a), len(b)) {
		if b[i].ns > 0 {
			values = append(values, a[i].ns/b[i].ns)
		}
	}
	return figureOf(values)
}
