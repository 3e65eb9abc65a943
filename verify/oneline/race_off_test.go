//go:build !race

package oneline

const played = 3000
