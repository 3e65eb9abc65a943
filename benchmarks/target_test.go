package main

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/benchmarks/contest"
)

func TestTargetsNameWhatIsMeasured(t *testing.T) {
	for _, target := range targets() {
		t.Run(target.Rule, func(t *testing.T) {
			all := scenarios(few)
			i := slices.IndexFunc(all, func(s contest.Scenario) bool { return s.Name == target.Scenario })
			require.GreaterOrEqual(t, i, 0, "there is no scenario %q", target.Scenario)
			// Only the scenario's own contestants have figures here, so a wrong name leaves a value at zero.
			o := contest.Outcome{}
			for n, c := range all[i].Contestants {
				k := float64(n + 1)
				o[c.Name] = []contest.Sample{{Ns: 10 * k, Bytes: 1000 * k, Allocs: 10 * k}}
			}
			require.Positive(t, target.Value(o).Median)
		})
	}
}
