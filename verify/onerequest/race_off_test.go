//go:build !race

package onerequest

const played = 3000
