package redo_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/jarcoal/httpmock"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

// askForRefund requests a refund from a provider that responds with status, and returns the error.
func askForRefund(status int) error {
	provider := httpmock.NewMockTransport()
	provider.RegisterNoResponder(httpmock.NewStringResponder(status, ""))
	client, err := redo.New(redo.WithStore(memstore.New()), redo.WithTransport(provider),
		redo.WithRetry(redo.RetryPolicy{MaxAttempts: 2, Jitter: redo.NoDelay}))
	if err != nil {
		return err
	}
	ctx := redo.WithOperation(context.Background(), "refund:ch_9ab:1000")
	req, err := http.NewRequestWithContext(ctx, "POST", "https://bank.test/refunds?token=secret",
		strings.NewReader("amount=1000"))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func ExampleError() {
	err := askForRefund(422)
	if e, ok := errors.AsType[*redo.Error](err); ok {
		fmt.Println("code:", e.Code)
		fmt.Println("status:", e.StatusCode)
		fmt.Println("attempts:", len(e.Attempts))
		fmt.Println("effect:", e.Effect)
	}
	fmt.Println("the input is wrong:", errors.Is(err, taxonomy.Validation))
	fmt.Println(err)
	// Output:
	// code: VALIDATION.unprocessable
	// status: 422
	// attempts: 1
	// effect: not applied
	// the input is wrong: true
	// redo: operation "refund:ch_9ab:1000": VALIDATION.unprocessable (status 422) after 1 attempt, effect not applied
}

// The operational question: may the same call be made again?
func ExampleSafeToRetry() {
	for _, status := range []int{503, 422} {
		err := askForRefund(status)
		fmt.Println(redo.CodeOf(err), redo.SafeToRetry(err))
	}
	// Output:
	// DEPENDENCY.unavailable true
	// VALIDATION.unprocessable false
}
