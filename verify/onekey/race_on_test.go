//go:build race

package onekey

// The race detector makes each life several times slower.
const played = 200
