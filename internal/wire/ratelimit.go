package wire

import (
	"math"
	"net/http"
	"strings"
	"time"
)

// maxReset is the longest time in which a quota is restored. A longer one is the date of another header's form, in
// seconds, and would stop a limiter for decades.
const maxReset = 366 * 24 * time.Hour

// Quota returns the number of requests that the server still allows, and the time until its quota is restored. It reads
// the header RateLimit, and of several quotas the one with the least left. In a response that reports "too many
// requests", nothing is left until the wait of [Hint] has passed. It reports false if there is no quota.
func Quota(h http.Header, now time.Time, limited bool) (left int, reset time.Duration, ok bool) {
	if limited {
		reset, ok = Hint(h, now, true)
		return 0, reset, ok && reset <= maxReset
	}
	valid := eachQuota(h["Ratelimit"], func(n int64, d time.Duration) {
		if d > maxReset {
			return
		}
		if least := int(min(n, math.MaxInt32)); !ok || least < left || least == left && d > reset {
			left, reset, ok = least, d, true
		}
	})
	return left, reset, ok && valid
}

// exhaustedFor returns the longest wait of the quotas that are used up. It reports false if no such quota has a wait.
// lines are the values of the RateLimit header.
func exhaustedFor(lines []string) (wait time.Duration, ok bool) {
	valid := eachQuota(lines, func(left int64, reset time.Duration) {
		if left == 0 {
			wait, ok = max(wait, reset), true
		}
	})
	return wait, ok && valid
}

// eachQuota calls f with each quota of the RateLimit header (draft-ietf-httpapi-ratelimit-headers-10): a list of items
// such as "default";r=0;t=30. The parameter r is the remaining quota, and t is the time until it is restored, in
// seconds.
//
// eachQuota ignores an item without r and a t that fits in a Duration. It reports false if the list has a syntax error:
// then the whole header counts for nothing (RFC 9651 section 4.2).
func eachQuota(lines []string, f func(left int64, reset time.Duration)) bool {
	for _, line := range lines {
		for rest := trimOWS(line); rest != ""; {
			q, after, err := parseQuota(rest)
			if err != nil {
				return false
			}
			rest = after
			left, counted := units(q.remaining, 1)
			reset, timed := units(q.reset, time.Second)
			if counted && timed {
				f(int64(left), reset)
			}
		}
	}
	return true
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
	n := 0
	for n < len(s) && tokenBytes[s[n]] {
		n++
	}
	if n == 0 {
		return "", malformed("%s starts with no token", excerpt(s))
	}
	return s[n:], nil
}
