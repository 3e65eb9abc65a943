//go:build !race

package store_test

// raceEnabled: allocations are what they are.
const raceEnabled = false
