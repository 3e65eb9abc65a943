package server_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/memstore"
)

// post sends one refund request under a key and prints the response.
func post(h http.Handler, key, body string) {
	r := httptest.NewRequest(http.MethodPost, "/refunds", strings.NewReader(body))
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	fmt.Println(strings.TrimSpace(fmt.Sprint(w.Code, " ", w.Header().Get("Idempotency-Status"),
		w.Header().Get("Error-Code"))))
}

func ExampleMiddleware() {
	createRefund := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Println("refunding")
		w.WriteHeader(http.StatusCreated)
	})
	mux := http.NewServeMux()
	mux.Handle("POST /refunds", server.Middleware(memstore.New(), server.Required(), server.SharedKeys())(createRefund))

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
	_, err := server.New(memstore.New(), server.SharedKeys(), server.MaxBody(-1))
	fmt.Println(err)
	// Output: server: option MaxBody: -1 is negative
}

// A handler passes its key on, so that the service it calls is safe to repeat too.
func ExampleKey() {
	charge := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("calling the bank under", server.Key(r.Context()))
		w.WriteHeader(http.StatusOK)
	})
	post(server.Middleware(memstore.New(), server.SharedKeys())(charge), "k1", "")
	// Output:
	// calling the bank under k1
	// 200 stored
}

// Once the effect is made the key is never given back, not even by a panic.
func ExampleApplied() {
	charge := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println("charged")
		if err := server.Applied(r.Context()); err != nil {
			fmt.Println(err)
		}
		panic(http.ErrAbortHandler)
	})
	h := server.Middleware(memstore.New(), server.SharedKeys())(charge)
	func() {
		defer func() { _ = recover() }()
		post(h, "k1", "")
	}()
	post(h, "k1", "")
	// Output:
	// charged
	// 409 CONFLICT.idempotency.result_not_stored
}

// A recovery looks for the effect of a dead request, by the note that it left with Checkpoint.
func ExampleRecover() {
	_ = server.TakeOver(server.Recover(
		func(_ context.Context, _ *http.Request, key string, note []byte) (http.Handler, error) {
			if len(note) == 0 {
				return nil, nil // it died before it called the bank: run the handler
			}
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, "payment %s of request %s\n", note, key)
			}), nil
		}))
}

// The service's own database is the last line of defence: a process that was paused for longer than its lease holds
// an old fence, and changes no row. The map represents a table with the statement
//
//	UPDATE refunds SET amount = $1, fence = $2 WHERE id = $3 AND fence <= $2
func ExampleFence() {
	type refund struct {
		amount int
		fence  uint64
	}
	table := map[string]refund{}
	update := func(id string, amount int, fence uint64) (changed bool) {
		if table[id].fence > fence {
			return false
		}
		table[id] = refund{amount, fence}
		return true
	}
	createRefund := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fence := server.Fence(r.Context())
		if !update("rf_1", 1000, fence) {
			http.Error(w, "another process has this key", http.StatusConflict)
			return
		}
		w.WriteHeader(http.StatusCreated)
		// A later owner of the key would have written with a greater fence. This process then changes nothing any more.
		update("rf_1", 1000, fence+1)
		fmt.Println("changed by the old fence:", update("rf_1", 2000, fence))
	})
	post(server.Middleware(memstore.New(), server.SharedKeys())(createRefund), "k1", "")
	// Output:
	// changed by the old fence: false
	// 201 stored
}

// A program that stops waits for the outcomes that the store has not taken yet.
func ExampleBackground() {
	var background server.Background
	once := server.Middleware(memstore.New(), server.SharedKeys(), server.RunIn(&background))
	srv := &http.Server{Handler: once(http.NotFoundHandler())}

	// On SIGTERM:
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	fmt.Println(srv.Shutdown(ctx))
	fmt.Println(background.Shutdown(ctx)) // before the store is closed
	// Output:
	// <nil>
	// <nil>
}

// A handler that can't find out whether its effect was made leaves the decision to the policy for take-overs.
func ExampleUnknown() {
	charge := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		server.Unknown(r.Context()) // the bank's response was lost
		http.Error(w, "the bank does not respond", http.StatusGatewayTimeout)
	})
	h := server.Middleware(memstore.New(), server.SharedKeys(), server.TakeOver(server.Refuse()))(charge)
	post(h, "k1", "")
	post(h, "k1", "")
	// Output:
	// 504
	// 409 CONFLICT.idempotency.outcome_unknown
}

// An API with its own error format sends refusals in it too.
func ExampleRefusal() {
	inOurFormat := server.Refusal(func(w http.ResponseWriter, _ *http.Request, p server.Problem) {
		w.WriteHeader(p.Status)
		fmt.Printf("{\"error\":%q}\n", p.Title)
	})
	createRefund := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
	h := server.Middleware(memstore.New(), server.SharedKeys(), inOurFormat)(createRefund)

	post(h, "k1", `{"charge":"ch_9ab"}`)
	post(h, "k1", `{"charge":"ch_other"}`)
	// Output:
	// 201 stored
	// {"error":"Idempotency-Key used for another request"}
	// 409 CONFLICT.idempotency.payload_mismatch
}

// A client that has lost a response can ask for the state of its key.
func ExampleStatusHandler() {
	st := memstore.New()
	createRefund := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
	status, err := server.StatusHandler(st, server.SharedKeys(), server.Route("POST /refunds"))
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST /refunds", server.Middleware(st, server.SharedKeys())(createRefund))
	mux.Handle("GET /refunds/status", status)

	post(mux, "k1", "")
	for _, key := range []string{"k1", "k2"} {
		r := httptest.NewRequest(http.MethodGet, "/refunds/status", nil)
		r.Header.Set("Idempotency-Key", key)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("Content-Type"), strings.SplitN(w.Body.String(), ",", 3)[0])
	}
	// Output:
	// 201 stored
	// 200 application/json {"state":"complete"
	// 404 application/problem+json {"type":"https://redo-go.github.io/redo/problems/VALIDATION.not_found"
}

// One response is kept for longer than those of the route.
func ExampleKeepFor() {
	payout := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := server.KeepFor(r.Context(), 90*24*time.Hour); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})
	post(server.Middleware(memstore.New(), server.SharedKeys())(payout), "k1", "")
	// Output: 201 stored
}
