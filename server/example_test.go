package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/memstore"
)

// post sends one refund request under a key and prints what comes back.
func post(h http.Handler, key, body string) {
	r := httptest.NewRequest(http.MethodPost, "/refunds", strings.NewReader(body))
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	fmt.Println(w.Code, w.Header().Get("Idempotency-Status")+w.Header().Get("Error-Code"))
}

func ExampleMiddleware() {
	createRefund := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Println("refunding")
		w.WriteHeader(http.StatusCreated)
	})
	mux := http.NewServeMux()
	mux.Handle("POST /refunds", server.Middleware(memstore.New(), server.Required())(createRefund))

	post(mux, "k1", `{"charge":"ch_9ab"}`)
	post(mux, "k1", `{"charge":"ch_9ab"}`)
	post(mux, "k1", `{"charge":"ch_other"}`)
	// Output:
	// refunding
	// 201 stored
	// 201 replayed
	// 409 CONFLICT.idempotency.payload_mismatch
}

func ExampleNew() {
	_, err := server.New(memstore.New(), server.MaxBody(-1))
	fmt.Println(err)
	// Output: server: option MaxBody: -1 is negative
}

// A handler passes its key on, so that the service it calls is safe to repeat too.
func ExampleKey() {
	charge := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println("calling the bank under", server.Key(r.Context()))
	})
	post(server.Middleware(memstore.New())(charge), "k1", "")
	// Output:
	// calling the bank under k1
	// 200 stored
}

// Once the effect is made the key is never given back, not even by a panic.
func ExampleStore() {
	charge := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println("charged")
		server.Store(r.Context())
		panic(http.ErrAbortHandler)
	})
	h := server.Middleware(memstore.New())(charge)
	func() {
		defer func() { _ = recover() }()
		post(h, "k1", "")
	}()
	post(h, "k1", "")
	// Output:
	// charged
	// 409 CONFLICT.idempotency.result_not_stored
}

// A recovery looks for what a dead request has done, by the note that it left with Checkpoint.
func ExampleRecover() {
	_ = server.TakeOver(server.Recover(func(_ context.Context, _ *http.Request, key string, note []byte) (http.Handler, error) {
		if len(note) == 0 {
			return nil, nil // it died before it called the bank: run the handler
		}
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, "payment %s of request %s\n", note, key)
		}), nil
	}))
}
