package redo

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// A Budget bounds the retries to one destination (scheme and host) when it is failing: a token bucket that
// starts full with Reserve tokens, gains Ratio of a token with every call, and pays one for every retry. A
// retry that ends in an answer other than another transient failure gets its token back, and so does one
// that is cancelled: what is spent is what made a bad situation worse.
//
// The zero Budget is the default: Ratio 0.2 and Reserve 100. Destinations never share a bucket.
type Budget struct {
	// Ratio is the share of calls that may be retried in the long run, from 0 to 10. Zero means 0.2.
	Ratio float64
	// Reserve is how many retries are possible on top, and the bucket's size. Zero means 100.
	Reserve int
	// Unlimited switches the budget off.
	Unlimited bool
}

func (b Budget) withDefaults() Budget {
	if b.Ratio == 0 {
		b.Ratio = 0.2
	}
	if b.Reserve == 0 {
		b.Reserve = 100
	}
	return b
}

func (b Budget) validate() error {
	switch {
	case !(b.Ratio >= 0 && b.Ratio <= 10): // also refuses NaN
		return fmt.Errorf("redo: budget: Ratio is %v, it must be from 0 to 10", b.Ratio)
	case b.Reserve < 0:
		return fmt.Errorf("redo: budget: Reserve is %d, it must not be negative", b.Reserve)
	case b.Unlimited && (b.Ratio != 0 || b.Reserve != 0):
		return fmt.Errorf("redo: budget: Unlimited contradicts Ratio %v and Reserve %d", b.Ratio, b.Reserve)
	}
	return nil
}

// maxDestinations bounds how many buckets are kept. A full bucket is the same as none, so only those are
// dropped.
const maxDestinations = 4096

// buckets holds one token bucket per destination.
type buckets struct {
	budget Budget
	spent  atomic.Int64 // len(tokens)
	mu     sync.Mutex
	tokens map[destination]float64 // a missing destination has a full bucket
}

func newBuckets(b Budget) *buckets {
	return &buckets{budget: b.withDefaults(), tokens: map[destination]float64{}}
}

// deposit notes a call.
func (b *buckets) deposit(d destination) { b.add(d, b.budget.Ratio) }

// refund gives back a withdrawn token.
func (b *buckets) refund(d destination) { b.add(d, 1) }

func (b *buckets) add(d destination, n float64) {
	if b.spent.Load() == 0 {
		return // every bucket is full, as ever when nothing fails
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t, ok := b.tokens[d]
	if !ok {
		return
	}
	if t += n; t >= float64(b.budget.Reserve) {
		delete(b.tokens, d)
		b.spent.Store(int64(len(b.tokens)))
		return
	}
	b.tokens[d] = t
}

// withdraw takes a token for a retry, or reports that there is none.
func (b *buckets) withdraw(d destination) bool {
	if b.budget.Unlimited {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t, ok := b.tokens[d]
	if !ok {
		if len(b.tokens) >= maxDestinations {
			return true // thousands of failing destinations at once: better an extra retry than an unbounded map
		}
		t = float64(b.budget.Reserve)
	}
	if t < 1 {
		return false
	}
	b.tokens[d] = t - 1
	b.spent.Store(int64(len(b.tokens)))
	return true
}

// A destination is what budgets, limiters and breakers are kept per: one that fails must not starve another.
type destination struct{ scheme, host string }

func (d destination) String() string { return d.scheme + "://" + d.host }
