package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
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

// canonicalForm returns the canonical form of body.
func canonicalForm(body []byte) ([]byte, error) {
	if !utf8.Valid(body) {
		return nil, errEncoding
	}
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
	if !json.Valid(body) { // what the canonicalizer takes for a number or a literal may be none
		return nil, errSyntax
	}
	return c.out, nil
}

// A canonicalizer copies in to out, one value after the other. It finds the ends of values and strings, and leaves the
// rest of the grammar to package json. It writes members in the order of the input, and sorts
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

// unexpected does not quote the offending byte, because errors must not contain parts of bodies.
func (c *canonicalizer) unexpected(wanted string) error { return c.fail(errSyntax, "no "+wanted) }

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
		return c.text(nil)
	}
	start := c.at
	for c.at < len(c.in) && !bytes.ContainsRune(ends, rune(c.in[c.at])) {
		c.at++
	}
	if c.at == start {
		return c.unexpected("value")
	}
	c.out = append(c.out, c.in[start:c.at]...)
	return nil
}

// ends are the bytes that end a number or a literal.
var ends = []byte(" \t\r\n,:]}")

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
		if c.space(); c.peek() != '"' {
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

// Surrogates in escapes. A pair is one character.
var (
	surrogate     = regexp.MustCompile(`(?i)\\ud[89a-f]`)
	surrogatePair = regexp.MustCompile(`(?i)\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}`)
)

// loneSurrogate reports whether a string has an escaped surrogate that is no part of a pair. Package json replaces it.
func loneSurrogate(raw []byte) bool {
	raw = bytes.ReplaceAll(raw, []byte(`\\`), []byte{' '}) // such a backslash begins no escape
	return surrogate.Match(surrogatePair.ReplaceAll(raw, []byte{' '}))
}

// text copies a string in the one escaped form of RFC 8785, section 3.2.2.2. If name is not nil, text appends the
// decoded string to it too.
func (c *canonicalizer) text(name *[]byte) error {
	start := c.at
	escaped := false
	for c.at++; c.at < len(c.in) && c.in[c.at] != '"'; c.at++ {
		if c.in[c.at] == '\\' {
			escaped = true
			c.at++
		}
	}
	if c.at++; c.at > len(c.in) {
		c.at = len(c.in)
		return c.unexpected("closing quote")
	}
	raw := c.in[start:c.at]
	if !escaped {
		c.out = append(c.out, raw...)
		if name != nil {
			*name = append(*name, raw[1:len(raw)-1]...)
		}
		return nil
	}
	var decoded string
	if json.Unmarshal(raw, &decoded) != nil {
		return c.unexpected("string")
	}
	if bytes.Contains(raw, []byte(`\u`)) && loneSurrogate(raw) {
		return c.fail(errSurrogate, "in a string that ends")
	}
	c.out = append(c.out, '"')
	for _, r := range decoded {
		c.out = appendEscaped(c.out, r)
	}
	c.out = append(c.out, '"')
	if name != nil {
		*name = append(*name, decoded...)
	}
	return nil
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
