package decision

import (
	"math"
	"sync/atomic"
	"time"
)

// A Retention is the time for which an API remembers a key. It is safe for concurrent use.
type Retention struct {
	known    time.Duration
	shortest atomic.Int64 // that the API advertised, in nanoseconds; 0: none
}

// Know sets the retention that the API documents.
func (r *Retention) Know(d time.Duration) { r.known = d }

// Learn records a retention that the API advertises, if it is shorter than the recorded one. It ignores any that is not
// positive.
func (r *Retention) Learn(d time.Duration) {
	for d > 0 {
		shortest := r.shortest.Load()
		if shortest > 0 && shortest <= int64(d) || r.shortest.CompareAndSwap(shortest, int64(d)) {
			return
		}
	}
}

// Left returns how long a request may still be sent whose key was first sent at the time born. A request without a key
// has no limit. The monotonic clock stops while the machine is suspended, and the wall clock can be set back. The one
// that shows the higher age counts.
func (r *Retention) Left(keyed bool, born, now time.Time) time.Duration {
	if !keyed {
		return math.MaxInt64
	}
	return r.Usable() - max(now.Sub(born), now.Round(0).Sub(born.Round(0)))
}

// Known returns the shortest known retention.
func (r *Retention) Known() time.Duration {
	if shortest := time.Duration(r.shortest.Load()); shortest > 0 {
		return min(r.known, shortest)
	}
	return r.known
}

// Usable returns how long a new key may be sent: the retention less a margin, since clocks differ and a request takes
// time to arrive.
func (r *Retention) Usable() time.Duration {
	known := r.Known()
	return known - min(time.Hour, known/8)
}
