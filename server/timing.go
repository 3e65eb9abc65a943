package server

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redo-go/redo/internal/chance"
	"github.com/redo-go/redo/internal/wire"
)

// budget returns how long the client will wait, from its X-Request-Timeout. It reports false if that is not a
// positive number of milliseconds. A number too large for a Duration is the largest Duration.
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

// An estimate is a running mean of how long a route's handler takes. Each run has a weight of an eighth. The zero
// value has seen no run.
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

// retryDelay returns the time after which a request in flight has probably ended. The lease alone is too long: it
// bounds how long a dead owner blocks the key, and not how long a live owner works. A key that a transaction holds
// has no lease.
func retryDelay(leaseLeft, usual time.Duration) time.Duration {
	if usual == 0 {
		usual = time.Second
	}
	if leaseLeft == 0 {
		return usual
	}
	return min(leaseLeft, usual)
}

// seconds returns the Retry-After for d, in whole seconds. It is between d and one and a half times d, by the random
// number r in [0, 1), and at least one.
func seconds(d time.Duration, r float64) int {
	spread := float64(d) * (1 + r/2)
	whole := int(spread / float64(time.Second))
	if spread > float64(whole)*float64(time.Second) {
		whole++
	}
	return max(1, whole)
}

// random returns a number in [0, 1), for jitter. Each process has its own seed.
func random() float64 { return chance.Float64() }
