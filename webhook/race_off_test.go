//go:build !race

package webhook_test

// raceEnabled: allocations are what they are.
const raceEnabled = false
