package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFigureOf(t *testing.T) {
	for _, c := range []struct {
		rule   string
		values []float64
		want   figure
		spread float64
	}{
		{"of nothing is zero", nil, figure{}, 0},
		{"of one value is that value", []float64{3}, exactly(3), 0},
		{"of an odd count has the middle one as median", []float64{9, 1, 4}, figure{4, 1, 9, 2.5, 6.5}, 2},
		{
			"of an even count has the mean of the middle two as median", []float64{8, 2, 4, 6},
			figure{5, 2, 8, 3.5, 6.5}, 1.2,
		},
	} {
		t.Run(c.rule, func(t *testing.T) {
			got := figureOf(c.values)
			require.Equal(t, c.want, got)
			require.Equal(t, c.spread, got.spread())
		})
	}
}

func TestFigureOfLeavesItsValuesInOrder(t *testing.T) {
	values := []float64{2, 1}
	figureOf(values)
	require.Equal(t, []float64{2, 1}, values)
}

func TestOutcome(t *testing.T) {
	o := outcome{
		"a": {{ns: 10, bytes: 100, allocs: 2.6}, {ns: 40, bytes: 300, allocs: 2.6}, {ns: 30, bytes: 200, allocs: 2.4}},
		"b": {{ns: 20}, {ns: 10}, {ns: 30}},
		"z": {{ns: 0}, {ns: 0}, {ns: 10}},
	}
	t.Run("a ratio is taken within each round", func(t *testing.T) {
		require.Equal(t, figure{median: 1, min: 0.5, max: 4, lower: 0.75, upper: 2.5}, o.ratio("a", "b"))
	})
	t.Run("a round in which the reference took no time counts for no ratio", func(t *testing.T) {
		require.Equal(t, exactly(3), o.ratio("a", "z"))
	})
	t.Run("time is the median with its extremes", func(t *testing.T) {
		require.Equal(t, figure{30, 10, 40, 20, 35}, o.time("a"))
	})
	t.Run("allocations are whole", func(t *testing.T) {
		require.Equal(t, 3.0, o.allocs("a"))
	})
	t.Run("bytes are the median", func(t *testing.T) {
		require.Equal(t, 200.0, o.bytes("a"))
	})
	t.Run("who was not measured has zero figures", func(t *testing.T) {
		require.Zero(t, o.time("nobody"))
		require.Zero(t, o.ratio("nobody", "a"))
	})
}
