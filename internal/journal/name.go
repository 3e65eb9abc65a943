package journal

import (
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// MaxName is the longest name of an operation, in bytes.
const MaxName = 512

// CheckName returns an error if name is not 1 to MaxName bytes of UTF-8 without control characters.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("redo: the operation's name is empty")
	case len(name) > MaxName:
		return fmt.Errorf("redo: the operation's name has %d bytes, at most %d are allowed: %.32q…",
			len(name), MaxName, name)
	case !utf8.ValidString(name):
		return fmt.Errorf("redo: the operation's name %q is not UTF-8", name)
	}
	for i, r := range name {
		if unicode.IsControl(r) {
			return fmt.Errorf("redo: the operation's name %q has the control character %U at byte %d", name, r, i)
		}
	}
	return nil
}
