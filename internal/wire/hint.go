package wire

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// epochFloor tells seconds since 1970 from a number of seconds to wait in X-RateLimit-Reset, which is used
// for both: no sane wait is thirty years long.
const epochFloor = 1_000_000_000

// Hint returns how long the server asks the client to wait before it comes back. The forms are, in the order
// in which they are believed: retry-after-ms (milliseconds), Retry-After (seconds or any HTTP-date form, RFC
// 9110 §10.2.3) and, when limited is true, RateLimit-Reset and X-RateLimit-Reset. Those two are sent by many
// servers on every response, so they are a hint only on an answer that says "too many requests".
//
// A zero wait is a hint: come back at once. Garbage, negative and overflowing values, and dates that have
// passed, are no hint. Dates are measured from the response's own Date where it has one, so that a skewed
// clock on this side does not shorten them, and from now otherwise.
func Hint(h http.Header, now time.Time, limited bool) (time.Duration, bool) {
	if len(h) == 0 {
		return 0, false
	}
	if v := h.Get("Retry-After-Ms"); v != "" {
		if d, ok := units(v, time.Millisecond); ok {
			return d, true
		}
	}
	if v := h.Get(HeaderRetryAfter); v != "" {
		if d, ok := units(v, time.Second); ok {
			return d, true
		}
		if at, err := http.ParseTime(v); err == nil {
			return until(at, h, now)
		}
	}
	if !limited {
		return 0, false
	}
	if d, ok := units(h.Get("Ratelimit-Reset"), time.Second); ok {
		return d, true
	}
	v := strings.TrimSpace(h.Get("X-Ratelimit-Reset"))
	if n, err := strconv.ParseInt(v, 10, 64); err == nil && n >= epochFloor {
		return until(time.Unix(n, 0), h, now)
	}
	return units(v, time.Second)
}

// units reads a whole number of unit. It refuses what does not fit in a Duration: a product that wraps
// around is a negative wait, and a negative wait is a hot loop.
func units(v string, unit time.Duration) (time.Duration, bool) {
	v = strings.TrimSpace(v)
	if v == "" || v[0] == '+' || v[0] == '-' {
		return 0, false
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n > math.MaxInt64/int64(unit) {
		return 0, false
	}
	return time.Duration(n) * unit, true
}

func until(at time.Time, h http.Header, now time.Time) (time.Duration, bool) {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	d := at.Sub(now)
	if d < 0 || d == math.MaxInt64 { // Sub saturates: the date is beyond what a wait can be
		return 0, false
	}
	return d, true
}
