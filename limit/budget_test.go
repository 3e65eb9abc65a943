package limit

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBudgetDefaults(t *testing.T) {
	require.Equal(t, Budget{Ratio: 0.2, Reserve: 100}, Budget{}.withDefaults())
	require.Equal(t, Budget{Ratio: 0.5, Reserve: 7}, Budget{Ratio: 0.5, Reserve: 7}.withDefaults())
}

func TestBudgetRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		budget Budget
		want   string
	}{
		{"a negative ratio", Budget{Ratio: -0.1}, "limit: budget: Ratio is -0.1, it must be from 0 to 10"},
		{"a ratio over 10", Budget{Ratio: 10.5}, "limit: budget: Ratio is 10.5, it must be from 0 to 10"},
		{"a ratio that is no number", Budget{Ratio: math.NaN()},
			"limit: budget: Ratio is NaN, it must be from 0 to 10"},
		{"an infinite ratio", Budget{Ratio: math.Inf(1)}, "limit: budget: Ratio is +Inf, it must be from 0 to 10"},
		{"a negative reserve", Budget{Reserve: -1}, "limit: budget: Reserve is -1, it must not be negative"},
		{"a bounded unlimited one", Budget{Unlimited: true, Reserve: 3},
			"limit: budget: Unlimited contradicts Ratio 0 and Reserve 3"},
		{"an unlimited one with a ratio", Budget{Unlimited: true, Ratio: 0.5},
			"limit: budget: Unlimited contradicts Ratio 0.5 and Reserve 0"},
	} {
		t.Run(c.name, func(t *testing.T) { require.EqualError(t, c.budget.Validate(), c.want) })
	}
	for _, b := range []Budget{{}, {Unlimited: true}, {Ratio: 10}, {Reserve: 1}} {
		require.NoError(t, b.Validate())
	}
}

// take withdraws until it is refused, and counts.
func take(b *Buckets, d Destination, most int) int {
	for n := range most {
		if !b.Withdraw(d) {
			return n
		}
	}
	return most
}

func TestBuckets(t *testing.T) {
	for name, f := range map[string]func(*testing.T){
		"start full": func(t *testing.T) {
			require.Equal(t, 100, take(NewBuckets(Budget{}), bank, 1000))
		},
		"gain the ratio with every call": func(t *testing.T) {
			b := NewBuckets(Budget{Ratio: 0.25, Reserve: 2})
			require.Equal(t, 2, take(b, bank, 10))
			for range 3 {
				b.Deposit(bank)
				require.False(t, b.Withdraw(bank), "less than a token buys nothing")
			}
			b.Deposit(bank)
			require.Equal(t, 1, take(b, bank, 10))
		},
		"never hold more than the reserve": func(t *testing.T) {
			b := NewBuckets(Budget{Ratio: 10, Reserve: 3})
			for range 10 {
				b.Deposit(bank)
			}
			require.Equal(t, 3, take(b, bank, 100))
			b.Deposit(bank)
			require.Equal(t, 3, take(b, bank, 100))
		},
		"gain a whole token with a refund": func(t *testing.T) {
			b := NewBuckets(Budget{Reserve: 2})
			require.Equal(t, 2, take(b, bank, 10))
			b.Refund(bank)
			require.Equal(t, 1, take(b, bank, 10))
		},
		"gain nothing with a refund when full": func(t *testing.T) {
			b := NewBuckets(Budget{Reserve: 2})
			b.Refund(bank)
			require.Equal(t, 2, take(b, bank, 10))
		},
		"lose nothing with a refused withdrawal": func(t *testing.T) {
			b := NewBuckets(Budget{Ratio: 0.5, Reserve: 1})
			require.True(t, b.Withdraw(bank))
			b.Deposit(bank)
			for range 10 {
				require.False(t, b.Withdraw(bank))
			}
			b.Deposit(bank)
			require.True(t, b.Withdraw(bank))
		},
		"never refuse and keep nothing when unlimited": func(t *testing.T) {
			b := NewBuckets(Budget{Unlimited: true})
			b.Deposit(bank)
			require.Equal(t, 5000, take(b, bank, 5000))
			b.Refund(bank)
			require.Empty(t, b.buckets.rows)
		},
		"are separate for each destination": func(t *testing.T) { // trap 62
			b := NewBuckets(Budget{Reserve: 2})
			require.Equal(t, 2, take(b, bank, 10))
			require.Equal(t, 2, take(b, shop, 10))
			require.Equal(t, 2, take(b, Destination{"http", "bank.test"}, 10), "the scheme counts")
			b.Refund(shop)
			require.False(t, b.Withdraw(bank))
			require.True(t, b.Withdraw(shop))
		},
		"are kept only while they are not full": func(t *testing.T) {
			b := NewBuckets(Budget{Reserve: 1, Ratio: 1})
			b.Deposit(bank)
			require.Empty(t, b.buckets.rows)
			require.True(t, b.Withdraw(bank))
			require.Len(t, b.buckets.rows, 1)
			b.Deposit(bank)
			require.Empty(t, b.buckets.rows)
			require.Zero(t, b.spent.Load())
		},
		"take no lock for a deposit while all are full": func(t *testing.T) {
			b := NewBuckets(Budget{})
			require.True(t, b.Withdraw(bank))
			b.Refund(bank)
			b.mu.Lock() // a deposit that locks never returns
			defer b.mu.Unlock()
			b.Deposit(bank)
		},
	} {
		t.Run(name, f)
	}
}

func TestBucketsOfManyDestinations(t *testing.T) {
	t.Run("stay bounded, and each one still has a budget", func(t *testing.T) {
		b := NewBuckets(Budget{Reserve: 2})
		for i := range many {
			require.Equal(t, 2, take(b, nth(i), 10))
		}
		requireBounded(t, &b.buckets)
		require.EqualValues(t, maxDestinations, b.spent.Load())
		require.False(t, b.Withdraw(nth(many-1)))
		require.True(t, b.Withdraw(nth(0)), "the least recently used bucket is new again")
	})
	t.Run("keep an empty bucket", func(t *testing.T) {
		b := NewBuckets(Budget{Reserve: 2})
		require.Equal(t, 2, take(b, bank, 10))
		for i := range many {
			require.True(t, b.Withdraw(nth(i)))
		}
		requireBounded(t, &b.buckets)
		require.False(t, b.Withdraw(bank))
	})
	t.Run("lose none of a few", func(t *testing.T) {
		b := NewBuckets(Budget{Reserve: many})
		for i := range many {
			require.True(t, b.Withdraw(nth(i%8)))
		}
		for i := range 8 {
			require.Equal(t, many-many/8, take(b, nth(i), many))
		}
	})
}

func TestBucketsUnderConcurrency(t *testing.T) {
	t.Run("few destinations", func(t *testing.T) {
		b := NewBuckets(Budget{Reserve: 50})
		var granted [2]atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			for i, d := range []Destination{bank, shop} {
				wg.Go(func() { granted[i].Add(int64(take(b, d, 100))) })
			}
		}
		wg.Wait()
		require.EqualValues(t, 50, granted[0].Load())
		require.EqualValues(t, 50, granted[1].Load())
	})
	t.Run("many destinations", func(t *testing.T) {
		b := NewBuckets(Budget{Reserve: 2})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for i := range many {
					b.Deposit(nth(i))
					if b.Withdraw(nth(i)) && i%2 == 0 {
						b.Refund(nth(i))
					}
				}
			})
		}
		wg.Wait()
		requireBounded(t, &b.buckets)
		require.EqualValues(t, len(b.buckets.rows), b.spent.Load())
	})
}
