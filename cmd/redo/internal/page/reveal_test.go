package page

import (
	"html"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWhatCannotBeSeenIsShownByItsNumber(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"plain text stays":                 {"201 Created", "201 Created"},
		"markup is text":                   {"</script>&'\"", "&lt;/script&gt;&amp;&#39;&#34;"},
		"a byte that is no UTF-8":          {"a\xE9b", `a<span class="unseen">\xE9</span>b`},
		"the replacement character is one": {"\uFFFD", "\uFFFD"},
		"a change of direction": {"\u202Efdp\u2066",
			`<span class="unseen">\u{202E}</span>fdp<span class="unseen">\u{2066}</span>`},
		"what joins, fills or has no width": {"a\u200B\u2060\uFEFF\u00AD\u3164", "a" +
			strings.Join([]string{`<span class="unseen">\u{200B}</span>`, `<span class="unseen">\u{2060}</span>`,
				`<span class="unseen">\u{FEFF}</span>`, `<span class="unseen">\u{00AD}</span>`,
				`<span class="unseen">\u{3164}</span>`}, "")},
		"a tag": {"\U000E0041", `<span class="unseen">\u{E0041}</span>`},
		"controls, and not line ends": {"\x00\r\n\t\x7F\u0085",
			`<span class="unseen">\u{0000}</span><span class="unseen">\u{000D}</span>` + "\n\t" +
				`<span class="unseen">\u{007F}</span><span class="unseen">\u{0085}</span>`},
		"letters written from right to left": {"שלום", "שלום"},
		"nothing":                            {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(reveal(c.in, maxText)); got != c.want {
				t.Errorf("%q is shown as %s, want %s", c.in, got, c.want)
			}
		})
	}
}

func TestLongTextIsCutBetweenCharactersAndSaysHowMuchIsLeftOut(t *testing.T) {
	if got, want := string(reveal("ab€cd", 4)),
		`ab <span class="cut">… 5 more bytes are not shown</span>`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := string(reveal("abcd", 4)); got != "abcd" {
		t.Errorf("a text that fits became %s", got)
	}
}

func TestExcerptIsOneLine(t *testing.T) {
	for in, want := range map[string]string{"a\n  b\tc": "a b c", "€€€€€": "€€€€…", "€€€€": "€€€€", "": ""} {
		if got := excerpt(in, map[bool]int{true: 5, false: 4}[in == "a\n  b\tc"]); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

var ownSpan = regexp.MustCompile(`<span class="(unseen|cut)">([^<]*)</span>`)

func FuzzRevealedTextIsSafeAndWhole(f *testing.F) {
	f.Add(hostile)
	f.Add("\xE2\x82")
	f.Fuzz(func(t *testing.T, s string) {
		out := string(reveal(s, len(s)))
		if !utf8.ValidString(out) {
			t.Errorf("%q has bytes that are no UTF-8", out)
		}
		for _, r := range out {
			if hides(r) {
				t.Errorf("%q hides %U", out, r)
			}
		}
		bare := ownSpan.ReplaceAllString(out, "$2")
		if strings.ContainsAny(bare, `<>"'`) {
			t.Errorf("%q has markup that is not ours", out)
		}
		if got := html.UnescapeString(bare); got != plain(s) {
			t.Errorf("%q reads as %q, want %q", s, got, plain(s))
		}
	})
}
