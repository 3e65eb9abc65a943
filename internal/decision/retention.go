package decision

import (
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

// Usable returns how long a new key may be sent: the retention less a margin, since clocks differ and a request takes
// time to arrive.
func (r *Retention) Usable() time.Duration {
	retention := r.known
	if shortest := time.Duration(r.shortest.Load()); shortest > 0 {
		retention = min(retention, shortest)
	}
	return retention - min(time.Hour, retention/8)
}
