package sim

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// mostSeeds is the number of seeds that may pass before a planted defect is found.
const mostSeeds = 1000

// Each planted defect is found, by a rule that it breaks. Its twin, the same worlds without it, breaks none.
func TestDefectsAreFound(t *testing.T) {
	if raced {
		t.Skip("the race detector sees no other code here than in TestSeeds")
	}
	all := slices.Concat(clientDefects, serverDefects, eventDefects)
	require.GreaterOrEqual(t, len(all), 30)
	for _, d := range all {
		t.Run(d.name, func(t *testing.T) {
			for seed := range uint64(mostSeeds) {
				res := run(t, seed, d, false)
				if res.broken == nil {
					continue
				}
				require.Contains(t, d.breaks, res.broken.rule, "seed %d: %s", seed, res.broken.detail)
				t.Logf("seed %d: %s: %s", seed, res.broken.rule, res.broken.detail)
				for twin := seed - min(seed, 4); twin <= seed; twin++ {
					res := run(t, twin, d.twin(), false)
					if res.broken != nil {
						t.Errorf("seed %d of the twin: %s: %s", twin, res.broken.rule, res.broken.detail)
					}
				}
				return
			}
			t.Errorf("not found in %d seeds", mostSeeds)
		})
	}
}
