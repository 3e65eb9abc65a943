//go:build race

package oneevent

// The race detector makes each life several times slower.
const played = 100
