// Package sample has a fuzz target that passes, and one that fails.
package sample

// Kind returns the kind of a text by its first letter.
func Kind(s string) string {
	if len(s) == 0 {
		return "empty"
	}
	if s[0] >= '0' && s[0] <= '9' {
		return "number"
	}
	return "word"
}

// Third returns the third byte, and forgets that there may be none.
func Third(s string) byte {
	if len(s) == 0 {
		return 0
	}
	return s[2]
}
