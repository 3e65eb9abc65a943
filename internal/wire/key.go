package wire

import (
	"errors"
	"fmt"
	"strings"
)

// MaxKey is the longest key, in bytes.
const MaxKey = 255

// Errors of ParseKey and CheckKey, to be found with errors.Is.
var (
	// ErrKeyMissing: there is no Idempotency-Key header.
	ErrKeyMissing = errors.New("wire: no Idempotency-Key header")
	// ErrKeyMalformed: what the header says can't be read as one key, or the key breaks a rule of CheckKey.
	ErrKeyMalformed = errors.New("wire: malformed idempotency key")
)

// CheckKey returns nil when key is 1 to MaxKey bytes of printable ASCII (0x20 to 0x7E) that neither start nor
// end with a space: what can be sent in a header and read back unchanged. Otherwise it returns an error
// matching ErrKeyMalformed that names the rule, and the position of what breaks it.
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

// ParseKey reads the key from the values of the Idempotency-Key header, one for each header line.
//
// A key is written bare (abc) or as a structured-field string ("abc", RFC 9651 section 3.3.3, which is what
// draft-ietf-httpapi-idempotency-key-header-07 asks for), and both forms name the same key. Parameters after
// the string ("abc";x=1) are read and ignored. The key may be repeated, on several lines or in a comma list,
// as proxies do when they join header lines, as long as every member is the same key.
//
// A bare key is taken as it is, semicolons, inner spaces and backslashes included; it can hold neither a comma nor a
// quotation mark (see NeedsQuotes). The error matches ErrKeyMissing when there are no lines, and
// ErrKeyMalformed otherwise: a header that is there but empty is not the same as none. ParseKey allocates
// nothing for a key that has no escapes.
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

// QuoteKey returns the key as a structured-field string: in quotation marks, with \ before each " and \.
func QuoteKey(key string) string {
	var b strings.Builder
	b.Grow(len(key) + 2)
	b.WriteByte('"')
	for i := range len(key) {
		if key[i] == '"' || key[i] == '\\' {
			b.WriteByte('\\')
		}
		b.WriteByte(key[i])
	}
	b.WriteByte('"')
	return b.String()
}

// NeedsQuotes reports whether a valid key can't be sent bare, because a comma would make it a list and a
// quotation mark a string. ParseKey reads every other valid key back from its bare form.
func NeedsQuotes(key string) bool {
	return strings.IndexByte(key, ',') >= 0 || strings.IndexByte(key, '"') >= 0
}

// parseMember reads one member of the list. more tells that a comma followed, and after is what comes next.
func parseMember(s string) (key, after string, more bool, err error) {
	if !strings.HasPrefix(s, `"`) {
		key, after, more = strings.Cut(s, ",")
		key = trimOWS(key)
		if i := strings.IndexByte(key, '"'); i >= 0 {
			return "", "", false, malformed("a quotation mark stands at byte %d of a key that is not quoted", i)
		}
		return key, after, more, nil
	}
	key, rest, err := parseString(s)
	if err != nil {
		return "", "", false, err
	}
	for strings.HasPrefix(rest, ";") {
		if rest, err = skipParameter(rest[1:]); err != nil {
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
				value = unescape(value)
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

// unescape takes each backslash away and keeps what follows it; parseString has checked that something does.
func unescape(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// skipParameter reads one parameter (RFC 9651 section 3.1.2) without its semicolon and returns what follows. The
// name is checked; of the value only that it is a string or a run of the characters that other items are
// made of, since it is ignored anyway.
func skipParameter(s string) (rest string, err error) {
	s = strings.TrimLeft(s, " ")
	n := 0
	for n < len(s) && (lower(s[n]) || s[n] == '*' || n > 0 && (digit(s[n]) || strings.IndexByte("_-.", s[n]) >= 0)) {
		n++
	}
	if n == 0 {
		return "", malformed("a semicolon is not followed by the name of a parameter")
	}
	value, ok := strings.CutPrefix(s[n:], "=")
	if !ok {
		return s[n:], nil
	}
	value = strings.TrimPrefix(value, "%") // a display string, written %"..."
	if strings.HasPrefix(value, `"`) {
		_, rest, err = parseString(value)
		return rest, err
	}
	n = strings.IndexAny(value, "; \t,")
	if n < 0 {
		n = len(value)
	}
	if n == 0 {
		return "", malformed("a parameter has an equals sign and no value")
	}
	for i := range n {
		if !printable(value[i]) || value[i] == '"' {
			return "", malformed("0x%02X stands in the value of a parameter", value[i])
		}
	}
	return value[n:], nil
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrKeyMalformed, fmt.Sprintf(format, args...))
}

// excerpt quotes the start of a key for a message: enough to recognise it, too little to fill a log.
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
