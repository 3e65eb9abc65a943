package page

import (
	"fmt"
	"html"
	"html/template"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/redo-go/redo/internal/wire"
)

// maxText is how many bytes of one text are shown. Reports cut bodies far below it; what a report from elsewhere
// holds must not make a page that no browser opens.
const maxText = 8 << 10

// maxFinding is the same for the findings of a case, which its exchanges show in full.
const maxFinding = 1 << 10

// reveal returns a text of another author as HTML. It escapes the text and cuts it after limit bytes, with a note about
// the rest. Characters that are invisible, or that change the text's direction, are written as numbers.
func reveal(s string, limit int) template.HTML {
	var b strings.Builder
	rest := len(s)
	s = wire.Cut(s, limit)
	rest -= len(s)
	walk(s, func(seen string) { b.WriteString(html.EscapeString(seen)) }, func(number string) {
		b.WriteString(`<span class="unseen">` + number + `</span>`)
	})
	if rest > 0 {
		fmt.Fprintf(&b, ` <span class="cut">… %d more bytes are not shown</span>`, rest)
	}
	return template.HTML(b.String())
}

// plain returns a text with its invisible characters as numbers, for places where HTML has no elements.
func plain(s string) string {
	var b strings.Builder
	write := func(part string) { b.WriteString(part) }
	walk(s, write, write)
	return b.String()
}

// walk visits a text: visible characters unchanged, and invisible ones as numbers.
func walk(s string, seen, unseen func(string)) {
	from := 0
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		number := ""
		switch {
		case r == utf8.RuneError && n == 1:
			number = fmt.Sprintf(`\x%02X`, s[i])
		case hides(r):
			number = fmt.Sprintf(`\u{%04X}`, r)
		}
		if number != "" {
			if from < i {
				seen(s[from:i])
			}
			unseen(number)
			from = i + n
		}
		i += n
	}
	if from < len(s) {
		seen(s[from:])
	}
}

// hides reports whether a character is invisible or changes how others are shown: controls, the marks of direction of
// Unicode's annex 9, joiners, fillers and tags. Line ends and tabs are visible.
func hides(r rune) bool {
	return r != '\n' && r != '\t' &&
		unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point,
			unicode.Variation_Selector)
}

// excerpt is the beginning of a text, in one line.
func excerpt(s string, runes int) string {
	s = strings.Join(strings.Fields(s), " ")
	n := 0
	for i := range s {
		if n == runes {
			return s[:i] + "…"
		}
		n++
	}
	return s
}
