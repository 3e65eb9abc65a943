//go:build race

package onerequest

// The race detector makes each life several times slower.
const played = 100
