package wire

import (
	"errors"
	"fmt"
	"net/textproto"
	"strings"
)

// MaxKey is the maximum length of a key, in bytes.
const MaxKey = 255

// Errors of ParseKey and CheckKey, for errors.Is.
var (
	// ErrKeyMissing means that the request has no key header.
	ErrKeyMissing = errors.New("no key header")
	// ErrKeyMalformed means that the header's value is not one key, or that the key breaks a rule of CheckKey.
	ErrKeyMalformed = errors.New("malformed idempotency key")
)

// CheckKey returns nil if a header can carry key unchanged. Such a key has 1 to MaxKey bytes of printable ASCII (0x20
// to 0x7E) and neither starts nor ends with a space. Otherwise the error matches ErrKeyMalformed. It names the broken
// rule, and the position of the first wrong byte.
func CheckKey(key string) error {
	switch {
	case key == "":
		return malformed("it is empty")
	case len(key) > MaxKey:
		return malformed("%s has %d bytes, at most %d are allowed", excerpt(key), len(key), MaxKey)
	case key[0] == ' ':
		return malformed("%s starts with a space", excerpt(key))
	case key[len(key)-1] == ' ':
		return malformed("%s ends with a space", excerpt(key))
	}
	for i := range len(key) {
		if !printable(key[i]) {
			return malformed("byte %d is 0x%02X, only printable ASCII (0x20 to 0x7E) is allowed", i, key[i])
		}
	}
	return nil
}

// httpHeaders are headers, in canonical form, to which HTTP or redo gives another meaning in a request.
var httpHeaders = map[string]bool{
	"Connection": true, "Content-Encoding": true, "Content-Length": true, "Content-Type": true, "Expect": true,
	"Host": true, "Keep-Alive": true, "Proxy-Connection": true, "Te": true, "Trailer": true,
	"Transfer-Encoding": true, "Upgrade": true, HeaderRequestTimeout: true,
}

// CheckKeyHeader returns nil if keys can be sent in a header of this name, in any case. The name must be a token (RFC
// 9110 section 5.6.2). It must not be a header of credentials, since keys are logged and stored. It must not have
// another meaning in HTTP. The error names the broken rule and has no prefix of this package.
func CheckKeyHeader(name string) error {
	switch {
	case !Token(name):
		return fmt.Errorf("%s is not a header name", excerpt(name))
	case CredentialHeader(name):
		return fmt.Errorf("the header %s carries credentials", name)
	case httpHeaders[textproto.CanonicalMIMEHeaderKey(name)]:
		return fmt.Errorf("the header %s has another meaning", name)
	}
	return nil
}

// ParseKey returns the key in the values of the key header, one value for each header line.
//
// A key is either bare (abc) or a structured-field string ("abc", RFC 9651 section 3.3.3). The string is the form of
// draft-ietf-httpapi-idempotency-key-header-07. Both forms are the same key. ParseKey ignores parameters after the
// string ("abc";x=1). The key may be repeated on several lines or in a comma list, since proxies join header lines.
// All members must then be the same key.
//
// A bare key may hold semicolons, inner spaces and backslashes. It can't hold a comma or a quotation mark: see
// NeedsQuotes.
//
// The error matches ErrKeyMissing if there are no lines, and ErrKeyMalformed otherwise. An empty header is malformed,
// not missing. ParseKey allocates no memory for a key without escapes.
func ParseKey(lines []string) (string, error) {
	if len(lines) == 0 {
		return "", ErrKeyMissing
	}
	var key string
	found := false
	for _, rest := range lines {
		for {
			member, after, more, err := parseMember(trimOWS(rest))
			if err != nil {
				return "", err
			}
			if err := CheckKey(member); err != nil {
				return "", err
			}
			if found && member != key {
				return "", malformed("two different keys were sent, %s and %s", excerpt(key), excerpt(member))
			}
			key, found = member, true
			if !more {
				break
			}
			rest = after
		}
	}
	return key, nil
}

// FormatKey returns a key as the value of its header: as a structured-field string if quoted is true, else bare. A key
// that a server would read as another one is quoted anyway, unless verbatim is true.
func FormatKey(key string, quoted, verbatim bool) string {
	if quoted || !verbatim && NeedsQuotes(key) {
		return QuoteKey(key)
	}
	return key
}

// QuoteKey returns the key as a structured-field string: in quotation marks, with \ before each " and \. It does not
// check the key.
func QuoteKey(key string) string { return `"` + escaper.Replace(key) + `"` }

var (
	escaper   = strings.NewReplacer(`"`, `\"`, `\`, `\\`)
	unescaper = strings.NewReplacer(`\"`, `"`, `\\`, `\`)
)

// NeedsQuotes reports whether a valid key can't be sent bare. A comma would make it a list, and a quotation mark
// would make it a string. ParseKey reads every other valid key back from its bare form.
func NeedsQuotes(key string) bool {
	return strings.ContainsAny(key, `,"`)
}

// parseMember reads the first member of the list. more reports whether a comma follows. after is the text behind it.
func parseMember(s string) (key, after string, more bool, err error) {
	if !strings.HasPrefix(s, `"`) {
		key, after, more = strings.Cut(s, ",")
		key = trimOWS(key)
		if i := strings.IndexByte(key, '"'); i >= 0 {
			return "", "", false, malformed("byte %d of a bare key is a quotation mark", i)
		}
		return key, after, more, nil
	}
	key, rest, err := parseString(s)
	if err != nil {
		return "", "", false, err
	}
	for strings.HasPrefix(rest, ";") {
		if _, _, rest, err = parseParameter(rest[1:]); err != nil {
			return "", "", false, err
		}
	}
	rest = trimOWS(rest)
	if rest == "" {
		return key, "", false, nil
	}
	if rest[0] != ',' {
		return "", "", false, malformed("0x%02X follows the closing quotation mark", rest[0])
	}
	return key, rest[1:], true, nil
}

// parseString reads the structured-field string that s starts with.
func parseString(s string) (value, rest string, err error) {
	escaped := false
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			if value = s[1:i]; escaped {
				value = unescaper.Replace(value)
			}
			return value, s[i+1:], nil
		case c == '\\':
			if i++; i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", "", malformed(`the backslash at byte %d escapes neither " nor \`, i-1)
			}
			escaped = true
		case !printable(c):
			return "", "", malformed("byte %d is 0x%02X, only printable ASCII (0x20 to 0x7E) is allowed", i, c)
		}
	}
	return "", "", malformed("the closing quotation mark is missing")
}

// parseParameter reads one parameter (RFC 9651 section 3.1.2) without its semicolon. The value is unparsed, and empty
// if the parameter has none. parseParameter checks the name. It only checks that the value is a string, or a run of
// the characters that the other types consist of.
func parseParameter(s string) (name, value, rest string, err error) {
	s = strings.TrimLeft(s, " ")
	n := 0
	for n < len(s) && (lower(s[n]) || s[n] == '*' || n > 0 && (digit(s[n]) || strings.IndexByte("_-.", s[n]) >= 0)) {
		n++
	}
	if n == 0 {
		return "", "", "", malformed("a semicolon is not followed by the name of a parameter")
	}
	name = s[:n]
	value, ok := strings.CutPrefix(s[n:], "=")
	if !ok {
		return name, "", s[n:], nil
	}
	text := strings.TrimPrefix(value, "%") // a display string is written %"..."
	if strings.HasPrefix(text, `"`) {
		_, rest, err = parseString(text)
		return name, value[:len(value)-len(rest)], rest, err
	}
	n = strings.IndexAny(text, "; \t,")
	if n < 0 {
		n = len(text)
	}
	if n == 0 {
		return "", "", "", malformed("a parameter has an equals sign and no value")
	}
	for i := range n {
		if !printable(text[i]) || text[i] == '"' {
			return "", "", "", malformed("the value of a parameter has the byte 0x%02X", text[i])
		}
	}
	rest = text[n:]
	return name, value[:len(value)-len(rest)], rest, nil
}

// malformed returns an error that matches ErrKeyMalformed and names a rule.
func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrKeyMalformed, fmt.Sprintf(format, args...))
}

// excerpt quotes the first 16 bytes of s for an error, so that a long key does not fill a log.
func excerpt(s string) string {
	const most = 16
	if len(s) > most {
		return fmt.Sprintf("%q...", s[:most])
	}
	return fmt.Sprintf("%q", s)
}

func trimOWS(s string) string { return strings.Trim(s, " \t") }
func printable(c byte) bool   { return 0x20 <= c && c <= 0x7E }
func lower(c byte) bool       { return 'a' <= c && c <= 'z' }
func digit(c byte) bool       { return '0' <= c && c <= '9' }
