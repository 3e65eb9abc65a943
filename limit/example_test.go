package limit_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/redo-go/redo/limit"
)

func ExampleNewBuckets() {
	budget := limit.Budget{Ratio: 0.5, Reserve: 2}
	if err := budget.Validate(); err != nil {
		fmt.Println(err)
		return
	}
	buckets := limit.NewBuckets(budget)
	bank := limit.Destination{Scheme: "https", Host: "bank.test"}
	fmt.Println(buckets.Withdraw(bank), buckets.Withdraw(bank), buckets.Withdraw(bank))

	// Two calls pay for one more retry.
	buckets.Deposit(bank)
	buckets.Deposit(bank)
	fmt.Println(buckets.Withdraw(bank), buckets.Withdraw(bank))
	// Output:
	// true true false
	// true false
}

func ExamplePerDestination() {
	limiter := limit.PerDestination(func() limit.Limiter {
		return rate.NewLimiter(rate.Every(time.Hour), 1)
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, host := range []string{"bank.test", "bank.test", "shop.test"} {
		own := limit.For(limiter, limit.Destination{Scheme: "https", Host: host})
		err := limit.Wait(ctx, own)
		fmt.Println(host, "limited:", errors.Is(err, limit.ErrLimited))
	}
	// Output:
	// bank.test limited: false
	// bank.test limited: true
	// shop.test limited: false
}

func ExampleNewAdaptiveLimiter() {
	limiter, err := limit.NewAdaptiveLimiter(100, 10)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(limiter.Limit(), "per second")
	limiter.Report(true) // a response with status 429
	fmt.Println(limiter.Limit(), "per second")
	// Output:
	// 100 per second
	// 50 per second
}

func ExampleNewBreaker() {
	breaker, err := limit.NewBreaker(limit.BreakerPolicy{Failures: 2, Cooldown: time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		done, err := breaker.Allow("https://bank.test")
		fmt.Println("allowed:", err == nil)
		done(limit.Unhealthy)
	}
	_, err = breaker.Allow("https://bank.test")
	fmt.Println(err)
	_, err = breaker.Allow("https://shop.test")
	fmt.Println("another destination allowed:", err == nil)
	// Output:
	// allowed: true
	// allowed: true
	// limit: the circuit breaker of this destination is open
	// another destination allowed: true
}
