// Package fakeclock has a clock that tests of stores set by hand.
package fakeclock

import (
	"sync/atomic"
	"time"
)

// A Clock is the wall clock, in unix nanoseconds, and the monotonic one apart. A store's background writes may read it
// while a test sets it.
type Clock struct{ Wall, Monotonic atomic.Int64 }

// At returns a clock whose wall clock has the time given.
func At(wall int64) *Clock {
	c := &Clock{}
	c.Wall.Store(wall)
	return c
}

// Read returns both clocks.
func (c *Clock) Read() (int64, time.Duration) {
	return c.Wall.Load(), time.Duration(c.Monotonic.Load())
}
