package redo_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/jarcoal/httpmock"

	"github.com/redo-go/redo"
)

// A jitter is a pure function: the waits of a policy can be listed.
func ExampleEqualJitter() {
	policy := redo.RetryPolicy{BaseDelay: 100 * time.Millisecond, MaxDelay: time.Minute}
	for n := range 4 {
		fmt.Println(redo.EqualJitter(n, 0, policy, 0), "to", redo.EqualJitter(n, 0, policy, 1))
	}
	// Output:
	// 100ms to 200ms
	// 200ms to 400ms
	// 400ms to 800ms
	// 800ms to 1.6s
}

func ExampleWithRetry() {
	provider := httpmock.NewMockTransport()
	provider.RegisterResponder("POST", "https://bank.test/refunds",
		httpmock.NewStringResponder(503,
			"").Then(httpmock.NewStringResponder(503, "")).Then(httpmock.NewStringResponder(201, "")))

	client, err := redo.New(redo.WithTransport(provider), redo.WithRetry(redo.RetryPolicy{
		MaxAttempts:    3,
		AttemptTimeout: 2 * time.Second,
		MaxElapsed:     5 * time.Second,
		Jitter:         redo.NoDelay,
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := redo.WithKey(context.Background(), "refund-1")
	req, err := http.NewRequestWithContext(ctx, "POST", "https://bank.test/refunds", strings.NewReader("amount=1000"))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	fmt.Println(resp.StatusCode, "after", provider.GetTotalCallCount(), "attempts, under", redo.KeyOf(resp))

	_, err = redo.New(redo.WithRetry(redo.RetryPolicy{MaxAttempts: -1}))
	fmt.Println(err)
	// Output:
	// 201 after 3 attempts, under refund-1
	// redo: retry policy: MaxAttempts is -1, it must not be negative
}

// The same name in the same namespace gives the same key, on every machine and after every restart.
func ExampleDerivedKeys() {
	keys := redo.DerivedKeys("live")
	for _, name := range []string{"refund:ch_9ab:1000", "refund:ch_9ab:1000", "refund:ch_9ab:1001"} {
		key, err := keys(name)
		fmt.Println(key, err)
	}
	// Output:
	// 4cbbb0ff-fa7d-54c4-a365-4952eb41d032 <nil>
	// 4cbbb0ff-fa7d-54c4-a365-4952eb41d032 <nil>
	// 898fdab3-a295-5ac6-b02a-4a22f60e817c <nil>
}
