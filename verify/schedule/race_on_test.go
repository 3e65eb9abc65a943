//go:build race

package schedule

// Bounds of the tests, in steps. The race detector makes each several times slower.
const (
	steps          = 60_000
	stepsInAFile   = 1_000
	referenceSteps = 30_000
	mutantSteps    = 500_000
)
