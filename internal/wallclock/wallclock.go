// Package wallclock has the clock of the stores that judge leases in their own process.
package wallclock

import (
	"math"
	"time"
)

// A Clock returns unix nanoseconds that never go back. It follows the wall clock forward. While the wall clock is
// behind the last instant, it goes on at the monotonic clock's rate. It is not safe for concurrent use.
type Clock struct {
	read func() (wall int64, monotonic time.Duration)
	at   time.Duration
	last int64
}

// New returns a clock over a reading of both clocks. [System] is one.
func New(read func() (int64, time.Duration)) Clock {
	wall, at := read()
	return Clock{read: read, at: at, last: wall}
}

// Now returns the time.
func (c *Clock) Now() int64 {
	wall, at := c.read()
	c.last = max(wall, After(c.last, int64(at-c.at)))
	c.at = at
	return c.last
}

// System reads the time package's clocks.
func System() func() (int64, time.Duration) {
	start := time.Now()
	return func() (int64, time.Duration) {
		t := time.Now()
		return t.UnixNano(), t.Sub(start)
	}
}

// After returns the instant d later, or the last one that can be stored.
func After(now, d int64) int64 {
	if d > math.MaxInt64-now {
		return math.MaxInt64
	}
	return now + d
}
