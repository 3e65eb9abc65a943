package contest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFigureOf(t *testing.T) {
	for _, c := range []struct {
		rule   string
		values []float64
		want   Figure
		spread float64
	}{
		{"of nothing is zero", nil, Figure{}, 0},
		{"of one value is that value", []float64{3}, Exactly(3), 0},
		{"of an odd count has the middle one as median", []float64{9, 1, 4}, Figure{4, 1, 9, 2.5, 6.5}, 2},
		{
			"of an even count has the mean of the middle two as median", []float64{8, 2, 4, 6},
			Figure{5, 2, 8, 3.5, 6.5}, 1.2,
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
	o := Outcome{
		"a": {{Ns: 10, Bytes: 100, Allocs: 2.6}, {Ns: 40, Bytes: 300, Allocs: 2.6}, {Ns: 30, Bytes: 200, Allocs: 2.4}},
		"b": {{Ns: 20}, {Ns: 10}, {Ns: 30}},
		"z": {{Ns: 0}, {Ns: 0}, {Ns: 10}},
	}
	t.Run("a ratio is taken within each round", func(t *testing.T) {
		require.Equal(t, Figure{Median: 1, Min: 0.5, Max: 4, Lower: 0.75, Upper: 2.5}, o.Ratio("a", "b"))
	})
	t.Run("a round in which the reference took no time counts for no ratio", func(t *testing.T) {
		require.Equal(t, Exactly(3), o.Ratio("a", "z"))
	})
	t.Run("time is the median with its extremes", func(t *testing.T) {
		require.Equal(t, Figure{30, 10, 40, 20, 35}, o.Time("a"))
	})
	t.Run("allocations are whole", func(t *testing.T) {
		require.Equal(t, 3.0, o.Allocs("a"))
	})
	t.Run("bytes are the median", func(t *testing.T) {
		require.Equal(t, 200.0, o.Bytes("a"))
	})
	t.Run("who was not measured has zero figures", func(t *testing.T) {
		require.Zero(t, o.Time("nobody"))
		require.Zero(t, o.Ratio("nobody", "a"))
	})
}
