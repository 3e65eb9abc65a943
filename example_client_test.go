package redo_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/memstore"
)

// A shop is a provider that makes refunds. Its first responses are lost on their way.
type shop struct {
	refunds atomic.Int32
	lost    atomic.Int32 // the number of responses that are still to be lost
}

func (s *shop) start() *httptest.Server {
	refund := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, `{"id":"rf_%d"}`, s.refunds.Add(1))
	})
	service := server.Middleware(memstore.New(), server.Required(), server.SharedKeys())(refund)
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.lost.Add(-1) >= 0 {
			service.ServeHTTP(httptest.NewRecorder(), r)
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		service.ServeHTTP(w, r)
	}))
}

// After a lost response the request is sent again, under the same key: the refund is made once.
func ExampleCall() {
	provider := &shop{}
	provider.lost.Store(2)
	api := provider.start()
	defer api.Close()

	client, err := redo.New(redo.WithStore(memstore.New()))
	if err != nil {
		fmt.Println(err)
		return
	}

	type Order struct {
		Amount int `json:"amount"`
	}
	type Refund struct {
		ID string `json:"id"`
	}
	ctx := redo.WithOperation(context.Background(), "refund:ch_9ab:1000")
	for range 2 { // the second call gets the stored response
		refund, err := redo.Call[Refund](ctx, client, "POST", api.URL, Order{Amount: 1000})
		fmt.Println(refund.ID, err)
	}
	fmt.Println("refunds made:", provider.refunds.Load())
	// Output:
	// rf_1 <nil>
	// rf_1 <nil>
	// refunds made: 1
}

func ExampleClient_Do() {
	provider := &shop{}
	provider.lost.Store(1)
	api := provider.start()
	defer api.Close()

	client, err := redo.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := redo.WithKey(context.Background(), "order-1138")
	req, err := http.NewRequestWithContext(ctx, "POST", api.URL, strings.NewReader(`{"amount":1000}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Println(resp.StatusCode, string(body), redo.KeyOf(resp), "replayed:", redo.Replayed(resp))
	// Output: 201 {"id":"rf_1"} order-1138 replayed: true
}

// Any SDK that takes an http.Client gets keys and retries, and net/http's semantics. The context names the operation.
func ExampleClient_Transport() {
	provider := &shop{}
	provider.lost.Store(1)
	api := provider.start()
	defer api.Close()

	client, err := redo.New(redo.WithStore(memstore.New()))
	if err != nil {
		fmt.Println(err)
		return
	}
	sdk := &http.Client{Transport: client.Transport()}
	ctx := redo.WithOperation(context.Background(), "refund:ch_9ab:1000")
	req, err := http.NewRequestWithContext(ctx, "POST", api.URL, strings.NewReader(`{"amount":1000}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := sdk.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode, "refunds made:", provider.refunds.Load())
	// Output: 201 refunds made: 1
}

// After a crash: list the pending operations, and continue each under its key.
func ExampleClient_Resume() {
	provider := &shop{}
	provider.lost.Store(1)
	api := provider.start()
	defer api.Close()
	ops := memstore.New() // a boltstore in earnest: it survives the process

	ctx := context.Background()
	crashed, err := redo.New(redo.WithStore(ops), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = redo.Call[struct{}](redo.WithOperation(ctx, "refund:ch_9ab:1000"), crashed, "POST", api.URL, "1000")
	fmt.Println("safe to retry:", redo.SafeToRetry(err))

	client, err := redo.New(redo.WithStore(ops), redo.WithCredentials(func(r *http.Request) error {
		r.Header.Set("Authorization", "Bearer …") // never stored
		return nil
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	for op, err := range client.Pending(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		resp, err := client.Resume(ctx, op)
		if err != nil {
			fmt.Println(err)
			continue
		}
		_ = resp.Body.Close()
		fmt.Println(op.Name, resp.StatusCode, "same key:", redo.KeyOf(resp) == op.Key)
	}
	fmt.Println("refunds made:", provider.refunds.Load())
	// Output:
	// safe to retry: true
	// refund:ch_9ab:1000 201 same key: true
	// refunds made: 1
}

// A name is for one request: another payload is refused before anything is sent.
func ExampleWithOperation() {
	provider := &shop{}
	api := provider.start()
	defer api.Close()
	client, err := redo.New(redo.WithStore(memstore.New()))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := redo.WithOperation(context.Background(), "refund:ch_9ab")
	for _, amount := range []int{1000, 2000} {
		_, err := redo.Call[struct{ ID string }](ctx, client, "POST", api.URL, amount)
		fmt.Printf("code: %q\n", redo.CodeOf(err))
	}
	fmt.Println("refunds made:", provider.refunds.Load())
	// Output:
	// code: ""
	// code: "CONFLICT.idempotency.payload_mismatch"
	// refunds made: 1
}
