//go:build !race

package onekey

const played = 3000
