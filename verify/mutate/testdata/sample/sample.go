package sample

import "errors"

var errNegative = errors.New("negative")

// Double is tested well.
func Double(n int) (int, error) {
	if n < 0 {
		return 0, errNegative
	}
	return 2 * n, nil
}

// Positive is tested without its boundary.
func Positive(n int) bool {
	return n > 0
}
