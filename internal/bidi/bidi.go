// Package bidi makes the characters visible that change the direction of text. A name with them looks like another
// name.
package bidi

import (
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"
)

// Escape returns p with each control of direction (Unicode annex 9) as \uXXXX, which JSON reads as the same character.
// It returns p itself if there is none.
func Escape(p []byte) []byte { return escape(p, false) }

// EscapeHTML is Escape for the texts of an HTML page. Tags stay as they are, because the values of forms are in them.
// Texts must have < and > as entities, as html/template writes them.
func EscapeHTML(page []byte) []byte { return escape(page, true) }

func escape(p []byte, html bool) []byte {
	var out []byte
	from, inTag := 0, false
	for i := 0; i < len(p); {
		r, n := utf8.DecodeRune(p[i:])
		switch {
		case html && r == '<':
			inTag = true
		case r == '>':
			inTag = false
		case !inTag && unicode.Is(unicode.Bidi_Control, r):
			out = fmt.Appendf(append(out, p[from:i]...), `\u%04x`, r)
			from = i + n
		}
		i += n
	}
	if out == nil {
		return p
	}
	return append(out, p[from:]...)
}

// Writer is a writer to a terminal. It escapes each Write on its own, so a character must be in one Write.
type Writer struct{ W io.Writer }

// Write implements io.Writer.
func (w Writer) Write(p []byte) (int, error) {
	if _, err := w.W.Write(Escape(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}
