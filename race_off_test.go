//go:build !race

package redo_test

// raceEnabled: allocations are what they are.
const raceEnabled = false
