package limit

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// Budget bounds the retries to each destination. It describes a token bucket that starts full with Reserve tokens.
// Each call adds Ratio of a token. Each retry takes one token. A retry gets its token back if it was cancelled, or
// if its response was not another transient failure.
//
// The zero Budget is the default: Ratio 0.2 and Reserve 100.
type Budget struct {
	// Ratio is the share of calls that may be retried in the long run, from 0 to 10. Zero means 0.2.
	Ratio float64
	// Reserve is the size of the bucket: the retries that are possible on top of Ratio. Zero means 100.
	Reserve int
	// Unlimited switches the budget off. Ratio and Reserve must then be zero.
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

// Validate returns an error if a field is out of its range or contradicts another.
func (b Budget) Validate() error {
	switch {
	case !(b.Ratio >= 0 && b.Ratio <= 10): // also refuses NaN
		return fmt.Errorf("limit: budget: Ratio is %v, it must be from 0 to 10", b.Ratio)
	case b.Reserve < 0:
		return fmt.Errorf("limit: budget: Reserve is %d, it must not be negative", b.Reserve)
	case b.Unlimited && (b.Ratio != 0 || b.Reserve != 0):
		return fmt.Errorf("limit: budget: Unlimited contradicts Ratio %v and Reserve %d", b.Ratio, b.Reserve)
	}
	return nil
}

// Buckets holds the token bucket of each destination. Make one with [NewBuckets].
type Buckets struct {
	budget  Budget
	spent   atomic.Int64 // the number of rows in buckets
	mu      sync.Mutex
	buckets table[Destination, *bucket] // a missing destination has a full bucket
}

type bucket struct{ tokens float64 }

// NewBuckets returns full buckets. The caller must have checked b with [Budget.Validate].
func NewBuckets(b Budget) *Buckets {
	empty := func(b *bucket) bool { return b.tokens < 1 }
	return &Buckets{budget: b.withDefaults(), buckets: newTable[Destination](empty)}
}

// Deposit adds the share of one call to the bucket of d. It takes no lock while every bucket is full.
func (b *Buckets) Deposit(d Destination) { b.add(d, b.budget.Ratio) }

// Refund returns a token that [Buckets.Withdraw] took. A bucket never holds more than Reserve tokens.
func (b *Buckets) Refund(d Destination) { b.add(d, 1) }

func (b *Buckets) add(d Destination, tokens float64) {
	if b.spent.Load() == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.buckets.get(d)
	if own == nil {
		return
	}
	if own.tokens += tokens; own.tokens >= float64(b.budget.Reserve) {
		b.buckets.remove(d)
		b.spent.Store(int64(len(b.buckets.rows)))
	}
}

// Withdraw takes the token for one retry. It returns false, and takes nothing, if less than a token is left.
func (b *Buckets) Withdraw(d Destination) bool {
	if b.budget.Unlimited {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.buckets.get(d)
	if own == nil {
		own = &bucket{tokens: float64(b.budget.Reserve)}
		b.buckets.add(d, own)
		b.spent.Store(int64(len(b.buckets.rows)))
	}
	if own.tokens < 1 {
		return false
	}
	own.tokens--
	return true
}
