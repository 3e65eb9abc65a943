//go:build !race

package oneevent

const played = 1000
