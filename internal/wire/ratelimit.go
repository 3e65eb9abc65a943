package wire

import (
	"strings"
	"time"
)

// exhaustedFor returns the longest wait of the quotas that are used up. It reports false if no such quota has a wait.
// lines are the values of the RateLimit header (draft-ietf-httpapi-ratelimit-headers-10): a list of items such as
// "default";r=0;t=30. The parameter r is the remaining quota, and t is the time until it is restored, in seconds.
//
// exhaustedFor ignores an item unless its r is zero and its t fits in a Duration. It ignores the whole header if the
// list has a syntax error (RFC 9651 section 4.2).
func exhaustedFor(lines []string) (wait time.Duration, ok bool) {
	for _, line := range lines {
		for rest := trimOWS(line); rest != ""; {
			q, after, err := parseQuota(rest)
			if err != nil {
				return 0, false
			}
			rest = after
			if left, valid := units(q.remaining, 1); !valid || left != 0 {
				continue
			}
			if d, valid := units(q.reset, time.Second); valid {
				wait, ok = max(wait, d), true
			}
		}
	}
	return wait, ok
}

// A quota is one item of the RateLimit header. Its values are unparsed, and empty if the item has no such parameter.
type quota struct{ remaining, reset string }

// parseQuota reads the first item of the list in s and returns the text after the comma that follows the item.
func parseQuota(s string) (q quota, rest string, err error) {
	if strings.HasPrefix(s, `"`) {
		_, rest, err = parseString(s)
	} else {
		rest, err = skipToken(s)
	}
	for err == nil && strings.HasPrefix(rest, ";") {
		var name, value string
		name, value, rest, err = parseParameter(rest[1:])
		switch name {
		case "r":
			q.remaining = value
		case "t":
			q.reset = value
		}
	}
	if err != nil {
		return quota{}, "", err
	}
	if rest = trimOWS(rest); rest == "" {
		return q, "", nil
	}
	after, found := strings.CutPrefix(rest, ",")
	if after = trimOWS(after); !found || after == "" {
		return quota{}, "", malformed("no item follows")
	}
	return q, after, nil
}

// skipToken returns the text after the token that s starts with.
func skipToken(s string) (rest string, err error) {
	n := strings.IndexAny(s, "; \t,")
	if n < 0 {
		n = len(s)
	}
	if !Token(s[:n]) {
		return "", malformed("%s is not a token", excerpt(s[:n]))
	}
	return s[n:], nil
}
