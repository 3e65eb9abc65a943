//go:build !race

package oneevent

const played = 3000
