//go:build race

package sim

// The race detector makes each seed several times slower.
const (
	defaultSeeds = 20
	raced        = true
)
