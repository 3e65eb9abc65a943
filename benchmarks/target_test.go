package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTargetsNameWhatIsMeasured(t *testing.T) {
	for _, target := range targets() {
		t.Run(target.rule, func(t *testing.T) {
			all := scenarios(few)
			i := slices.IndexFunc(all, func(s scenario) bool { return s.name == target.scenario })
			require.GreaterOrEqual(t, i, 0, "there is no scenario %q", target.scenario)
			// Only the scenario's own contestants have figures here, so a wrong name leaves a value at zero.
			o := outcome{}
			for n, c := range all[i].contestants {
				o[c.name] = []sample{{
					ns: float64(10 * (n + 1)), bytes: float64(1000 * (n + 1)), allocs: float64(10 * (n + 1)),
				}}
			}
			require.Positive(t, target.value(o).median)
		})
	}
}

func TestReport(t *testing.T) {
	value := func(median float64) func(outcome) figure {
		return func(outcome) figure { return figure{median, 0, 99, median - 0.5, median + 0.5} }
	}
	const half = " (half of the rounds "
	exact := func(outcome) figure { return exactly(7) }
	for _, c := range []struct {
		rule   string
		target target
		want   string
		missed int
	}{
		{
			"a ceiling may be reached", target{"s", "r", 1, false, "%.2f×", value(1)},
			"ok s r: 1.00×" + half + "0.50× to 1.50×)", 0,
		},
		{
			"a ceiling may not be passed", target{"s", "r", 1, false, "%.2f×", value(1.01)},
			"MISSED s r: 1.01×" + half + "0.51× to 1.51×)", 1,
		},
		{
			"a floor may be reached", target{"s", "r", 10, true, "%.1f", value(10)},
			"ok s r: 10.0" + half + "9.5 to 10.5)", 0,
		},
		{
			"a floor may not be undercut", target{"s", "r", 10, true, "%.1f", value(9.9)},
			"MISSED s r: 9.9" + half + "9.4 to 10.4)", 1,
		},
		{"a value without a range is printed alone", target{"s", "r", 7, false, "%.0f B", exact}, "ok s r: 7 B", 0},
		{
			"a target whose scenario was not run is not missed", target{"other", "r", 0, false, "%.0f", exact},
			"not run other r", 0,
		},
	} {
		t.Run(c.rule, func(t *testing.T) {
			var out strings.Builder
			missed := report(&out, []target{c.target}, map[string]outcome{"s": {}})
			require.Equal(t, c.missed, missed)
			require.Equal(t, "targets "+c.want, strings.Join(strings.Fields(out.String()), " "))
		})
	}
}
