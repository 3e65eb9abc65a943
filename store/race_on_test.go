//go:build race

package store_test

// raceEnabled: the race detector allocates on its own, so that counts of allocations mean nothing under it.
const raceEnabled = true
