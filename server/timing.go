package server

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redo-go/redo/internal/wire"
)

// budget reads how long the client will still wait. What is not a positive number of milliseconds is no budget, and
// one too large for a Duration is the largest.
func budget(h http.Header) (time.Duration, bool) {
	v := h[wire.HeaderRequestTimeout]
	if len(v) != 1 {
		return 0, false
	}
	const most = int64(1<<63-1) / int64(time.Millisecond)
	ms, err := strconv.ParseUint(v[0], 10, 63)
	if err != nil || ms == 0 {
		return 0, false
	}
	return time.Duration(min(int64(ms), most)) * time.Millisecond, true
}

// An estimate is a running mean of how long a route's handler takes, in which each run weighs an eighth. The zero value
// has seen none.
type estimate struct{ nanoseconds atomic.Int64 }

func (e *estimate) add(d time.Duration) {
	for {
		old := e.nanoseconds.Load()
		mean := int64(d)
		if old != 0 {
			mean = old + (int64(d)-old)/8
		}
		if e.nanoseconds.CompareAndSwap(old, max(1, mean)) {
			return
		}
	}
}

func (e *estimate) value() time.Duration { return time.Duration(e.nanoseconds.Load()) }

// comeBack says when it is worth asking again for a request in flight. The lease alone would overstate it: it bounds how
// long a dead owner blocks the key, and not how long a live one works. Where there is no lease, since a transaction holds
// the key, none bounds it.
func comeBack(leaseLeft, usual time.Duration) time.Duration {
	if usual == 0 {
		usual = time.Second
	}
	if leaseLeft == 0 {
		return usual
	}
	return min(leaseLeft, usual)
}

// seconds turns d into a Retry-After: between d and one and a half times d by the random number r, which is in
// [0, 1), in whole seconds, and at least one.
func seconds(d time.Duration, r float64) int {
	spread := float64(d) * (1 + r/2)
	whole := int(spread / float64(time.Second))
	if spread > float64(whole)*float64(time.Second) {
		whole++
	}
	return max(1, whole)
}

// random is the source of jitter. Each process has a seed of its own.
func random() float64 { return rand.Float64() }
