package store

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// ErrNotJSON is wrapped by every error of [CanonicalJSON]: the body is not JSON, or is JSON without a single
// canonical form. A server responds with 400, or falls back to [Raw].
var ErrNotJSON = errors.New("store: body has no canonical JSON form")

// MaxJSONDepth is how deep arrays and objects may nest for [CanonicalJSON].
const MaxJSONDepth = 128

// CanonicalJSON returns the fingerprint over method, path, query and the canonical form of a JSON body. A body that
// was marshalled again, with other white space, another order of members or other escapes, has the same fingerprint.
// Its version is [CanonicalJSONV1], so it never equals one of [Raw].
//
// The form is that of RFC 8785, except that numbers keep their text. So 9007199254740993 differs from
// 9007199254740992, and 1.0 from 1, although many decoders can't tell them apart. The error wraps [ErrNotJSON] for
// duplicate member names (it names the member), invalid UTF-8, lone surrogates, data after the value, and nesting
// deeper than [MaxJSONDepth]. An empty body is allowed. A body of white space alone is not.
func CanonicalJSON(method, path, query string, body []byte) (Fingerprint, error) {
	if len(body) == 0 {
		return sum(CanonicalJSONV1, method, path, query, nil), nil
	}
	canonical, err := canonicalForm(body)
	if err != nil {
		return Fingerprint{}, fmt.Errorf("%w: %w", ErrNotJSON, err)
	}
	return sum(CanonicalJSONV1, method, path, query, canonical), nil
}

// Reasons to refuse a body. The last three are valid by JSON's grammar.
var (
	errSyntax    = errors.New("syntax error")
	errEncoding  = errors.New("invalid UTF-8")
	errSurrogate = errors.New("lone surrogate")
	errDuplicate = errors.New("duplicate member")
	errDepth     = errors.New("nested too deep")
)

// canonicalForm reads body once and returns its canonical form.
func canonicalForm(body []byte) ([]byte, error) {
	// No value's canonical form is longer than the value: white space is dropped, and each string is written with its
	// shortest escapes.
	c := canonicalizer{
		in:  body,
		out: make([]byte, 0, len(body)),
		// Room for a small body's names and members, so that they don't have to grow.
		names:   make([]byte, 0, 128),
		members: make([]member, 0, 16),
	}
	if err := c.value(0); err != nil {
		return nil, err
	}
	c.space()
	if c.at < len(c.in) {
		return nil, c.fail(errSyntax, "data after the value")
	}
	return c.out, nil
}

// A canonicalizer copies in to out, one value after the other. It writes members in the order of the input, and sorts
// them when their object ends.
type canonicalizer struct {
	in      []byte
	at      int // the next byte of in
	out     []byte
	names   []byte   // the decoded names of the members of all open objects, one after the other
	members []member // the members of all open objects
	scratch []byte
}

// A member is one member of an open object: the span of its name in names, and of its text in out.
type member struct{ name, nameEnd, text, textEnd int }

func (c *canonicalizer) fail(kind error, detail string) error {
	return fmt.Errorf("%w: %s at byte %d", kind, detail, c.at)
}

// peek returns the next byte, or zero at the end; a zero byte is not legal outside of strings either.
func (c *canonicalizer) peek() byte {
	if c.at < len(c.in) {
		return c.in[c.at]
	}
	return 0
}

func (c *canonicalizer) space() {
	for c.at < len(c.in) {
		switch c.in[c.at] {
		case ' ', '\t', '\n', '\r':
			c.at++
		default:
			return
		}
	}
}

// skip drops white space and then the byte b if it is next. It reports whether b was next.
func (c *canonicalizer) skip(b byte) bool {
	if c.space(); c.peek() != b {
		return false
	}
	c.at++
	return true
}

func (c *canonicalizer) unexpected(wanted string) error {
	if c.at >= len(c.in) {
		return c.fail(errSyntax, "the body ends before "+wanted)
	}
	// The offending byte is not quoted: errors must not contain parts of bodies.
	return c.fail(errSyntax, "no "+wanted)
}

func (c *canonicalizer) value(depth int) error {
	c.space()
	switch b := c.peek(); {
	case b == '{' || b == '[':
		if depth == MaxJSONDepth {
			return c.fail(errDepth, fmt.Sprintf("more than %d levels", MaxJSONDepth))
		}
		c.at++
		if b == '{' {
			return c.object(depth + 1)
		}
		return c.array(depth + 1)
	case b == '"':
		c.at++
		return c.text(nil)
	case b == 't':
		return c.literal("true")
	case b == 'f':
		return c.literal("false")
	case b == 'n':
		return c.literal("null")
	case b == '-' || isDigit(b):
		return c.number()
	}
	return c.unexpected("value")
}

func (c *canonicalizer) literal(word string) error {
	if !bytes.HasPrefix(c.in[c.at:], []byte(word)) {
		return c.unexpected("value")
	}
	c.at += len(word)
	c.out = append(c.out, word...)
	return nil
}

func (c *canonicalizer) array(depth int) error {
	c.out = append(c.out, '[')
	if c.skip(']') {
		c.out = append(c.out, ']')
		return nil
	}
	for {
		if err := c.value(depth); err != nil {
			return err
		}
		switch {
		case c.skip(','):
			c.out = append(c.out, ',')
		case c.skip(']'):
			c.out = append(c.out, ']')
			return nil
		default:
			return c.unexpected("comma or bracket")
		}
	}
}

func (c *canonicalizer) object(depth int) error {
	c.out = append(c.out, '{')
	if c.skip('}') {
		c.out = append(c.out, '}')
		return nil
	}
	first, firstName, start := len(c.members), len(c.names), len(c.out)
	for {
		m := member{name: len(c.names), text: len(c.out)}
		if !c.skip('"') {
			return c.unexpected("quote")
		}
		if err := c.text(&c.names); err != nil {
			return err
		}
		m.nameEnd = len(c.names)
		if !c.skip(':') {
			return c.unexpected("colon")
		}
		c.out = append(c.out, ':')
		if err := c.value(depth); err != nil {
			return err
		}
		m.textEnd = len(c.out)
		c.members = append(c.members, m)
		switch {
		case c.skip(','):
			c.out = append(c.out, ',')
		case c.skip('}'):
			if err := c.sortMembers(c.members[first:], start); err != nil {
				return err
			}
			c.members, c.names = c.members[:first], c.names[:firstName]
			c.out = append(c.out, '}')
			return nil
		default:
			return c.unexpected("comma or brace")
		}
	}
}

// sortMembers sorts the members in out from start on. It returns an error if a name occurs twice.
func (c *canonicalizer) sortMembers(members []member, start int) error {
	compare := func(a, b member) int { return compareUTF16(c.nameOf(a), c.nameOf(b)) }
	sorted := slices.IsSortedFunc(members, compare)
	if !sorted {
		slices.SortFunc(members, compare)
	}
	for i := 1; i < len(members); i++ {
		if compare(members[i-1], members[i]) == 0 {
			return c.fail(errDuplicate, fmt.Sprintf("%.64q twice in the object that ends", c.nameOf(members[i])))
		}
	}
	if sorted {
		return nil
	}
	c.scratch = append(c.scratch[:0], c.out[start:]...)
	c.out = c.out[:start]
	for i, m := range members {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		c.out = append(c.out, c.scratch[m.text-start:m.textEnd-start]...)
	}
	return nil
}

func (c *canonicalizer) nameOf(m member) []byte { return c.names[m.name:m.nameEnd] }

// compareUTF16 orders two valid UTF-8 strings by their UTF-16 code units (RFC 8785, section 3.2.3). That is the order
// of their bytes, with one exception. Characters from U+E000 to U+FFFF have the first byte 0xEE or 0xEF. Characters
// above have a first byte of 0xF0 or more, but UTF-16 writes them with surrogates, which are smaller. At the first
// difference of two valid strings, both bytes are first bytes or both are continuations.
func compareUTF16(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		x, y := a[i], b[i]
		if x == y {
			continue
		}
		less := x < y
		if x >= 0xEE && y >= 0xEE && (x >= 0xF0) != (y >= 0xF0) {
			less = !less
		}
		if less {
			return -1
		}
		return 1
	}
	return len(a) - len(b)
}

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

// number copies a number's text after checking its grammar (RFC 8259, section 6).
func (c *canonicalizer) number() error {
	start := c.at
	if c.peek() == '-' {
		c.at++
	}
	if c.peek() == '0' {
		c.at++
	} else if c.digits() == 0 {
		return c.unexpected("digit")
	}
	if c.peek() == '.' {
		c.at++
		if c.digits() == 0 {
			return c.unexpected("digit")
		}
	}
	if b := c.peek(); b == 'e' || b == 'E' {
		c.at++
		if b := c.peek(); b == '+' || b == '-' {
			c.at++
		}
		if c.digits() == 0 {
			return c.unexpected("digit")
		}
	}
	c.out = append(c.out, c.in[start:c.at]...)
	return nil
}

func (c *canonicalizer) digits() int {
	start := c.at
	for isDigit(c.peek()) {
		c.at++
	}
	return c.at - start
}

// text copies a string, whose opening quote was read, in the one escaped form of RFC 8785, section 3.2.2.2. If
// decoded is not nil, text appends the decoded string to it too.
func (c *canonicalizer) text(decoded *[]byte) error {
	c.out = append(c.out, '"')
	for {
		// Most text is plain: copy it in runs.
		run := c.at
		for c.at < len(c.in) && isPlain(c.in[c.at]) {
			c.at++
		}
		if run < c.at {
			c.out = append(c.out, c.in[run:c.at]...)
			if decoded != nil {
				*decoded = append(*decoded, c.in[run:c.at]...)
			}
		}
		if c.at >= len(c.in) {
			return c.unexpected("closing quote")
		}
		var r rune
		switch b := c.in[c.at]; {
		case b == '"':
			c.at++
			c.out = append(c.out, '"')
			return nil
		case b == '\\':
			var err error
			if r, err = c.escape(); err != nil {
				return err
			}
		case b < ' ':
			return c.fail(errSyntax, "control character in a string")
		default:
			var size int
			if r, size = utf8.DecodeRune(c.in[c.at:]); r == utf8.RuneError && size == 1 {
				return c.fail(errEncoding, "in a string")
			}
			c.at += size
		}
		c.out = appendEscaped(c.out, r)
		if decoded != nil {
			*decoded = utf8.AppendRune(*decoded, r)
		}
	}
}

// isPlain reports whether b is an ASCII character that needs no escape in a string.
func isPlain(b byte) bool { return b >= ' ' && b < utf8.RuneSelf && b != '"' && b != '\\' }

// escape reads the escape sequence at the backslash that is next.
func (c *canonicalizer) escape() (rune, error) {
	c.at++
	b := c.peek()
	switch b {
	case '"', '\\', '/':
	case 'b':
		b = '\b'
	case 'f':
		b = '\f'
	case 'n':
		b = '\n'
	case 'r':
		b = '\r'
	case 't':
		b = '\t'
	case 'u':
		return c.unicodeEscape()
	default:
		return 0, c.unexpected("escape sequence")
	}
	c.at++
	return rune(b), nil
}

// unicodeEscape reads four hexadecimal digits after the u that is next, and a second escape if they are the first
// half of a surrogate pair.
func (c *canonicalizer) unicodeEscape() (rune, error) {
	r, err := c.hex4()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	if c.peek() != '\\' || c.at+1 >= len(c.in) || c.in[c.at+1] != 'u' {
		return 0, c.fail(errSurrogate, "in an escape that ends")
	}
	c.at++
	low, err := c.hex4()
	if err != nil {
		return 0, err
	}
	if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
		return 0, c.fail(errSurrogate, "in an escape that ends")
	}
	return r, nil
}

// hex4 reads the u that is next and four hexadecimal digits.
func (c *canonicalizer) hex4() (rune, error) {
	c.at++
	var r rune
	for range 4 {
		b := c.peek()
		switch {
		case isDigit(b):
			b -= '0'
		case b|0x20 >= 'a' && b|0x20 <= 'f':
			b = (b | 0x20) - 'a' + 10
		default:
			return 0, c.unexpected("hexadecimal digit")
		}
		r = r<<4 | rune(b)
		c.at++
	}
	return r, nil
}

func appendEscaped(out []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(out, '\\', byte(r))
	case '\b':
		return append(out, `\b`...)
	case '\f':
		return append(out, `\f`...)
	case '\n':
		return append(out, `\n`...)
	case '\r':
		return append(out, `\r`...)
	case '\t':
		return append(out, `\t`...)
	}
	if r < ' ' {
		const digits = "0123456789abcdef"
		return append(out, '\\', 'u', '0', '0', digits[r>>4], digits[r&0xF])
	}
	return utf8.AppendRune(out, r)
}
