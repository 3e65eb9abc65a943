//go:build !race

package oneoperation

const played = 3000
