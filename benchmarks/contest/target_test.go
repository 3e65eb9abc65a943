package contest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReport(t *testing.T) {
	value := func(median float64) func(Outcome) Figure {
		return func(Outcome) Figure { return Figure{median, 0, 99, median - 0.5, median + 0.5} }
	}
	const half = " (half of the rounds "
	exact := func(Outcome) Figure { return Exactly(7) }
	for _, c := range []struct {
		rule   string
		target Target
		want   string
		missed int
	}{
		{
			"a ceiling may be reached", AtMost("s", "r", 1, "%.2f×", value(1)),
			"ok s r: 1.00×" + half + "0.50× to 1.50×)", 0,
		},
		{
			"a ceiling may not be passed", AtMost("s", "r", 1, "%.2f×", value(1.01)),
			"MISSED s r: 1.01×" + half + "0.51× to 1.51×)", 1,
		},
		{
			"a floor may be reached", AtLeast("s", "r", 10, "%.1f", value(10)),
			"ok s r: 10.0" + half + "9.5 to 10.5)", 0,
		},
		{
			"a floor may not be undercut", AtLeast("s", "r", 10, "%.1f", value(9.9)),
			"MISSED s r: 9.9" + half + "9.4 to 10.4)", 1,
		},
		{"a value without a range is printed alone", AtMost("s", "r", 7, "%.0f B", exact), "ok s r: 7 B", 0},
		{
			"a target whose scenario was not run is not missed", AtMost("other", "r", 0, "%.0f", exact),
			"not run other r", 0,
		},
	} {
		t.Run(c.rule, func(t *testing.T) {
			var out strings.Builder
			missed := report(&out, []Target{c.target}, map[string]Outcome{"s": {}})
			require.Equal(t, c.missed, missed)
			require.Equal(t, "targets "+c.want, strings.Join(strings.Fields(out.String()), " "))
		})
	}
}
