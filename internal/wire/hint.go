package wire

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// RetryAfter returns the value of the header Retry-After for a wait: whole seconds, rounded up, at least one.
func RetryAfter(wait time.Duration) string {
	return strconv.FormatInt(max(1, int64(math.Ceil(wait.Seconds()))), 10)
}

// epochFloor is the least value of RateLimit-Reset and X-RateLimit-Reset that counts as seconds since 1970. Servers
// also send a number of seconds to wait in these headers. A wait of this many seconds is over thirty years.
const epochFloor = 1_000_000_000 * time.Second

// Hint returns the wait before the next request that the server's headers give. It reads these headers in order,
// and the first one with a valid value decides:
//
//   - retry-after-ms, in milliseconds
//   - Retry-After, in seconds or as any form of HTTP date (RFC 9110 section 10.2.3). Shopify sends "2.0"
//   - RateLimit, the longest wait of the quotas that are used up (draft-ietf-httpapi-ratelimit-headers-10)
//   - RateLimit-Reset, and then X-RateLimit-Reset, in seconds to wait or since 1970
//
// Hint reads the last three only if limited is true. Many servers send them with every response, so they are a hint
// only in a response that reports "too many requests".
//
// A zero wait is a hint: the client may send immediately. Hint ignores garbage, negative and overflowing values,
// and dates that have passed. It measures dates from the response's own Date, so that a skewed clock of the client
// does not shorten them. It measures from now if there is no Date. A nil header has no hint.
func Hint(h http.Header, now time.Time, limited bool) (time.Duration, bool) {
	if d, ok := decimal(h.Get("Retry-After-Ms"), time.Millisecond); ok {
		return d, true
	}
	if v := h.Get(HeaderRetryAfter); v != "" {
		if d, ok := decimal(v, time.Second); ok {
			return d, true
		}
		if at, err := http.ParseTime(v); err == nil {
			if d, ok := until(at, h, now); ok {
				return d, true
			}
		}
	}
	if !limited {
		return 0, false
	}
	if d, ok := exhaustedFor(h["Ratelimit"]); ok {
		return d, true
	}
	for _, name := range [...]string{"Ratelimit-Reset", "X-Ratelimit-Reset"} {
		d, ok := decimal(h.Get(name), time.Second)
		if ok && d >= epochFloor { // GitHub and GitLab send such dates
			d, ok = until(time.Unix(0, int64(d)), h, now)
		}
		if ok {
			return d, true
		}
	}
	return 0, false
}

// decimal reads a number of unit that may have a fraction, and rounds it up.
func decimal(v string, unit time.Duration) (time.Duration, bool) {
	whole, fraction, found := strings.Cut(strings.TrimSpace(v), ".")
	d, ok := units(whole, unit)
	if !ok || !found {
		return d, ok
	}
	if _, ok := units(fraction, 1); !ok {
		return 0, false
	}
	part, err := strconv.ParseFloat("0."+fraction, 64)
	rest := time.Duration(math.Ceil(part * float64(unit)))
	if err != nil || d > math.MaxInt64-rest {
		return 0, false
	}
	return d + rest, true
}

// units reads a whole number of unit. It refuses a number that does not fit in a Duration. A product that wraps
// around would be a negative wait, and a client that waits a negative time repeats without a pause.
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

// until returns the time from the response's Date, or from now, until at. It reports false if at has passed.
func until(at time.Time, h http.Header, now time.Time) (time.Duration, bool) {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	d := at.Sub(now)
	if d < 0 || d == math.MaxInt64 { // Sub saturates: no Duration is long enough
		return 0, false
	}
	return d, true
}
