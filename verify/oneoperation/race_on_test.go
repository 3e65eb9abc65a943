//go:build race

package oneoperation

// The race detector makes each life several times slower.
const played = 200
