// Package chance draws the random numbers that spread waits. A simulation replaces the source, so that a seed replays
// its run.
package chance

import (
	"math/rand/v2"
	"sync/atomic"
)

// source replaces rand.Float64 unless it is nil.
var source atomic.Pointer[func() float64]

// Float64 returns a number in [0, 1). By default it takes no lock: each thread has its own random source.
func Float64() float64 {
	if f := source.Load(); f != nil {
		return (*f)()
	}
	return rand.Float64()
}

// Replace makes f the source of the whole process. f must be safe for concurrent use. Nil restores the default.
func Replace(f func() float64) {
	if f == nil {
		source.Store(nil)
		return
	}
	source.Store(&f)
}
