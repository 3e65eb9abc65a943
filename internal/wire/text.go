package wire

import (
	"strings"
	"unicode/utf8"
)

// Cut returns the text's first characters, at most limit bytes of them.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// Clip returns the text as UTF-8 without NUL, cut as Cut does: so every store and log accepts it.
func Clip(text string, limit int) string {
	return Cut(strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD"), limit)
}
