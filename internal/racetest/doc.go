// Package racetest reports to tests whether the race detector is on.
package racetest

import "testing"

// Repeats skips a test under the race detector. Call it from a test that runs the code of another test in a browser,
// on more data, or with other settings of an engine. The detector would see the same code again, many times slower.
func Repeats(t testing.TB) {
	t.Helper()
	if Enabled {
		t.Skip("the race detector sees this code in another test")
	}
}

// Sample returns every fifth element under the race detector, and otherwise all. Call it for runs of the same code on
// different input.
func Sample[E any](all []E) (some []E) {
	if !Enabled {
		return all
	}
	for i := 0; i < len(all); i += 5 {
		some = append(some, all[i])
	}
	return some
}
