//go:build race

package oneline

// The race detector makes each life several times slower.
const played = 100
