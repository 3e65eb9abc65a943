package pebblestore

import "time"

// A clock returns unix nanoseconds that never go back. It follows the wall clock forward. While the wall clock is
// behind the last instant, it goes on at the monotonic clock's rate. It is not safe for concurrent use.
type clock struct {
	read func() (wall int64, monotonic time.Duration)
	at   time.Duration
	last int64
}

func newClock(read func() (int64, time.Duration)) clock {
	wall, at := read()
	return clock{read: read, at: at, last: wall}
}

func (c *clock) now() int64 {
	wall, at := c.read()
	c.last = max(wall, after(c.last, int64(at-c.at)))
	c.at = at
	return c.last
}

// systemTime reads the time package's clocks.
func systemTime() func() (int64, time.Duration) {
	start := time.Now()
	return func() (int64, time.Duration) {
		t := time.Now()
		return t.UnixNano(), t.Sub(start)
	}
}
