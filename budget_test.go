package redo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/taxonomy"
)

var (
	bank = destination{"https", "bank.test"}
	shop = destination{"https", "shop.test"}
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
		{"a negative ratio", Budget{Ratio: -0.1}, "redo: budget: Ratio is -0.1, it must be from 0 to 10"},
		{"a ratio over 10", Budget{Ratio: 10.5}, "redo: budget: Ratio is 10.5, it must be from 0 to 10"},
		{"a ratio that is no number", Budget{Ratio: math.NaN()}, "redo: budget: Ratio is NaN, it must be from 0 to 10"},
		{"an infinite ratio", Budget{Ratio: math.Inf(1)}, "redo: budget: Ratio is +Inf, it must be from 0 to 10"},
		{"a negative reserve", Budget{Reserve: -1}, "redo: budget: Reserve is -1, it must not be negative"},
		{"a bounded unlimited one", Budget{Unlimited: true, Reserve: 3}, "redo: budget: Unlimited contradicts Ratio 0 and Reserve 3"},
		{"an unlimited one with a ratio", Budget{Unlimited: true, Ratio: 0.5}, "redo: budget: Unlimited contradicts Ratio 0.5 and Reserve 0"},
	} {
		t.Run(c.name, func(t *testing.T) { require.EqualError(t, c.budget.validate(), c.want) })
	}
	for _, b := range []Budget{{}, {Unlimited: true}, {Ratio: 10}, {Reserve: 1}} {
		require.NoError(t, b.validate())
	}
}

// take withdraws until it is refused, and counts.
func take(b *buckets, d destination, most int) int {
	for n := range most {
		if !b.withdraw(d) {
			return n
		}
	}
	return most
}

func TestBucket(t *testing.T) {
	t.Run("starts full and is then empty", func(t *testing.T) {
		require.Equal(t, 100, take(newBuckets(Budget{}), bank, 1000))
	})
	t.Run("gains its ratio with every call", func(t *testing.T) {
		b := newBuckets(Budget{Ratio: 0.25, Reserve: 2})
		require.Equal(t, 2, take(b, bank, 10))
		for range 3 {
			b.deposit(bank)
			require.False(t, b.withdraw(bank), "less than a token buys nothing")
		}
		b.deposit(bank)
		require.Equal(t, 1, take(b, bank, 10))
	})
	t.Run("never holds more than the reserve", func(t *testing.T) {
		b := newBuckets(Budget{Ratio: 10, Reserve: 3})
		for range 10 {
			b.deposit(bank)
		}
		require.Equal(t, 3, take(b, bank, 100))
		b.deposit(bank)
		require.Equal(t, 3, take(b, bank, 100))
	})
	t.Run("a refund is a whole token", func(t *testing.T) {
		b := newBuckets(Budget{Reserve: 2})
		require.Equal(t, 2, take(b, bank, 10))
		b.refund(bank)
		require.Equal(t, 1, take(b, bank, 10))
	})
	t.Run("a refund to a full bucket adds nothing", func(t *testing.T) {
		b := newBuckets(Budget{Reserve: 2})
		b.refund(bank)
		require.Equal(t, 2, take(b, bank, 10))
	})
	t.Run("a refused withdrawal takes nothing", func(t *testing.T) {
		b := newBuckets(Budget{Ratio: 0.5, Reserve: 1})
		require.True(t, b.withdraw(bank))
		b.deposit(bank)
		for range 10 {
			require.False(t, b.withdraw(bank))
		}
		b.deposit(bank)
		require.True(t, b.withdraw(bank), "two halves are a token, whatever was refused in between")
	})
	t.Run("unlimited never refuses and keeps nothing", func(t *testing.T) {
		b := newBuckets(Budget{Unlimited: true})
		b.deposit(bank)
		require.Equal(t, 5000, take(b, bank, 5000))
		b.refund(bank)
		require.Empty(t, b.tokens)
	})
}

// Trap 62.
func TestDestinationsDoNotStarveEachOther(t *testing.T) {
	b := newBuckets(Budget{Reserve: 2})
	require.Equal(t, 2, take(b, bank, 10))
	require.Equal(t, 2, take(b, shop, 10))
	require.Equal(t, 2, take(b, destination{"http", "bank.test"}, 10), "another scheme is another destination")
	b.refund(shop)
	require.False(t, b.withdraw(bank), "a refund goes to its own destination")
	require.Equal(t, "https://bank.test", bank.String())
}

func TestOnlyBucketsThatAreNotFullAreKept(t *testing.T) {
	b := newBuckets(Budget{Reserve: 1, Ratio: 1})
	nth := func(i int) destination { return destination{"https", fmt.Sprintf("%d.test", i)} }
	for i := range maxDestinations {
		b.deposit(nth(i))
	}
	require.Empty(t, b.tokens, "calls alone leave nothing behind")
	for i := range maxDestinations {
		require.True(t, b.withdraw(nth(i)))
	}
	require.Len(t, b.tokens, maxDestinations)
	require.True(t, b.withdraw(nth(maxDestinations)))
	require.True(t, b.withdraw(nth(maxDestinations)), "beyond the bound nothing is counted")
	require.Len(t, b.tokens, maxDestinations)
	require.False(t, b.withdraw(nth(0)), "and those within it still are")

	b.deposit(nth(0))
	require.Len(t, b.tokens, maxDestinations-1, "a full bucket makes room")
	require.True(t, b.withdraw(nth(maxDestinations)))
	require.False(t, b.withdraw(nth(maxDestinations)))
}

func TestBucketsUnderConcurrency(t *testing.T) {
	b := newBuckets(Budget{Reserve: 50})
	var granted [2]atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		for i, d := range []destination{bank, shop} {
			wg.Go(func() {
				for range 100 {
					if b.withdraw(d) {
						granted[i].Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	require.EqualValues(t, 50, granted[0].Load())
	require.EqualValues(t, 50, granted[1].Load())
}

// scripted is a transport that gives each attempt the next of its answers, and the last one from then on.
type scripted struct {
	statuses []int
	hint     string
	sent     atomic.Int32
}

// What an attempt meets instead of an answer.
const (
	broken = -1 // the connection breaks
	hang   = -2 // nothing, until the attempt ends
)

func (s *scripted) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	n := int(s.sent.Add(1))
	status := s.statuses[min(n, len(s.statuses))-1]
	switch status {
	case broken:
		return nil, io.ErrUnexpectedEOF
	case hang:
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	h := http.Header{}
	if s.hint != "" && status >= 400 {
		h.Set("Retry-After", s.hint)
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader("")), Request: r}, nil
}

// send makes one POST through c.
func send(ctx context.Context, t *testing.T, c *Client) error {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, bank.String()+"/refunds", strings.NewReader("1000"))
	require.NoError(t, err)
	resp, err := c.Do(req)
	if err == nil {
		require.NoError(t, resp.Body.Close())
	}
	return err
}

// Trap 61: what a retry cost is given back unless it ended in another failure of the server's.
func TestWhatARetryCosts(t *testing.T) {
	const reserve = 10
	open := errors.New("the breaker's own words")
	for _, c := range []struct {
		name    string
		rt      *scripted
		options []Option
		cancel  time.Duration // when the caller gives up, if not zero
		want    int           // what is left of the reserve
		err     error
	}{
		{"no retry costs nothing", &scripted{statuses: []int{200}}, nil, 0, reserve, nil},
		{"a terminal answer costs nothing", &scripted{statuses: []int{400}}, nil, 0, reserve, taxonomy.BadRequest},
		{"a retry that succeeds is given back", &scripted{statuses: []int{503, 200}}, nil, 0, reserve, nil},
		{"a retry that ends in a terminal answer is given back", &scripted{statuses: []int{503, 400}}, nil, 0, reserve, taxonomy.BadRequest},
		{"a retry that fails again is spent", &scripted{statuses: []int{503}}, []Option{WithRetry(RetryPolicy{MaxAttempts: 2})}, 0, reserve - 1, ErrAttempts},
		{"a retry whose connection breaks is spent", &scripted{statuses: []int{broken}}, []Option{WithRetry(RetryPolicy{MaxAttempts: 2})}, 0, reserve - 1, ErrAttempts},
		{"of several retries the last is given back", &scripted{statuses: []int{503, 503, 503, 200}}, nil, 0, reserve - 2, nil},
		{"a retry that the deadline refuses takes nothing", &scripted{statuses: []int{503}, hint: "3600"}, nil, 0, reserve, ErrTooLate},
		{"a retry that the attempts refuse takes nothing", &scripted{statuses: []int{503}}, []Option{WithRetry(RetryPolicy{MaxAttempts: 1})}, 0, reserve, ErrAttempts},
		{"a retry without a key takes nothing", &scripted{statuses: []int{503}}, []Option{WithKeys(nil)}, 0, reserve, ErrKeyless},
		{"a retry that is cancelled in its wait is given back", &scripted{statuses: []int{503}, hint: "5"}, nil, time.Second, reserve, context.Canceled},
		{"a retry that the breaker stops is given back", &scripted{statuses: []int{503}}, []Option{WithBreaker(refuseAfter{1, open, new(int)})}, 0, reserve, open},
		{"a retry that the limiter stops is given back", &scripted{statuses: []int{503}}, []Option{WithLimiter(limitAfter{1, new(int)})}, 0, reserve, ErrLimited},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, err := New(append(c.options, WithTransport(c.rt), WithBudget(Budget{Reserve: reserve, Ratio: 1e-9}))...)
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.cancel != 0 {
					time.AfterFunc(c.cancel, cancel)
				}
				if err := send(ctx, t, client); c.err == nil {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, c.err)
				}
				require.Equal(t, c.want, take(client.buckets, bank, 2*reserve))
			})
		})
	}
}

func TestASpentBudgetEndsTheCallAndSaysWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &scripted{statuses: []int{503}}
		client, err := New(WithTransport(rt), WithBudget(Budget{Reserve: 2, Ratio: 1e-9}), WithRetry(RetryPolicy{Jitter: ConstantDelay}))
		require.NoError(t, err)
		err = send(t.Context(), t, client)
		require.ErrorIs(t, err, ErrBudget)
		require.EqualValues(t, 3, rt.sent.Load(), "the first attempt and two retries")
		e, ok := errors.AsType[*Error](err)
		require.True(t, ok)
		require.Equal(t, time.Now().Add(100*ms), e.RetryAt)

		require.ErrorIs(t, send(t.Context(), t, client), ErrBudget)
		require.EqualValues(t, 4, rt.sent.Load(), "a first attempt is never refused")
	})
}

// refuseAfter is a breaker that lets so many attempts through.
type refuseAfter struct {
	allowed int
	err     error
	asked   *int
}

func (b refuseAfter) Allow(string) (func(AttemptHealth), error) {
	if *b.asked++; *b.asked > b.allowed {
		return nil, b.err
	}
	return func(AttemptHealth) {}, nil
}

// limitAfter is a limiter that lets so many attempts through.
type limitAfter struct {
	allowed int
	asked   *int
}

func (l limitAfter) Wait(context.Context) error {
	if *l.asked++; *l.asked > l.allowed {
		return errors.New("no room before the deadline")
	}
	return nil
}
