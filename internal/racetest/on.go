//go:build race

package racetest

// Enabled reports whether the race detector is on. It allocates on its own, so allocations can't be counted under it.
const Enabled = true
