package wire

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Lifetime reads the time for which a server remembers a key: whole seconds (86400) or an ISO 8601 duration (P1D,
// PT30M). The duration has weeks, days, hours, minutes and seconds. ok is false for anything else, for zero, and for
// overflows.
func Lifetime(v string) (d time.Duration, ok bool) {
	v = strings.TrimSpace(v)
	if n, err := strconv.ParseInt(v, 10, 64); err == nil {
		if n <= 0 || n > math.MaxInt64/int64(time.Second) {
			return 0, false
		}
		return time.Duration(n) * time.Second, true
	}
	rest, isDuration := strings.CutPrefix(v, "P")
	date, clock, hasClock := strings.Cut(rest, "T")
	if !isDuration || hasClock && clock == "" {
		return 0, false
	}
	const day = 24 * time.Hour
	if !addParts(&d, date, "WD", 7*day, day) || !addParts(&d, clock, "HMS", time.Hour, time.Minute, time.Second) {
		return 0, false
	}
	return d, d > 0
}

// addParts adds the parts of an ISO 8601 duration, each a number and one of the letters, in their order.
func addParts(d *time.Duration, s, letters string, units ...time.Duration) bool {
	for s != "" {
		i := strings.IndexAny(s, letters)
		if i < 1 {
			return false
		}
		n, err := strconv.ParseUint(s[:i], 10, 64)
		at := strings.IndexByte(letters, s[i])
		if err != nil || n > uint64((math.MaxInt64-int64(*d))/int64(units[at])) {
			return false
		}
		*d += time.Duration(n) * units[at]
		letters, units, s = letters[at+1:], units[at+1:], s[i+1:]
	}
	return true
}
