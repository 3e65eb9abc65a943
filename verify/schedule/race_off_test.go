//go:build !race

package schedule

// Bounds of the tests, in steps. A mutant is mostly found long before its bound.
const (
	steps          = 2_000_000
	stepsInAFile   = 4_000
	referenceSteps = 1_000_000
	mutantSteps    = 500_000
)
