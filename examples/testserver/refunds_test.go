// Package testserver tests a service with an idempotent endpoint. servertest.Check runs every case of the contract
// against the handler. The other test runs a retrying client against it, and counts the effects.
//
//	go test ./examples/testserver
package testserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/conformance"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// A bank is the service under test. Use a store of a test's own, or the engine that the service has in production.
type bank struct{ refunds atomic.Int64 }

func (b *bank) handler(st store.Store) (http.Handler, error) {
	once, err := server.New(st, server.Required(), server.Principal(customer))
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /refunds", once(http.HandlerFunc(b.createRefund)))
	return mux, nil
}

func customer(r *http.Request) string { return r.Header.Get("X-Customer") }

func (b *bank) createRefund(w http.ResponseWriter, r *http.Request) {
	var in struct{ Amount int }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Amount <= 0 {
		http.Error(w, "the amount must be positive", http.StatusUnprocessableEntity)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"id":"rf_%d","customer":%q}`, b.refunds.Add(1), customer(r))
}

func TestRefundsKeepTheContract(t *testing.T) {
	h, err := new(bank).handler(memstore.New())
	if err != nil {
		t.Fatal(err)
	}
	servertest.Check(t, h, conformance.Target{
		Operation: conformance.Operation{Method: "POST", Path: "/refunds", Body: `{"amount":{{number}}}`},
		Key:       conformance.Key{Required: new(true), Strict: true},
		Invalid:   &conformance.Operation{Body: `{"amount":0}`},
		Effects:   &conformance.Effects{ResponseID: "id"},
		Principals: []conformance.Principal{
			{Name: "alice", Headers: map[string]string{"X-Customer": "alice"}},
			{Name: "bob", Headers: map[string]string{"X-Customer": "bob"}},
		},
	})
}

func TestARefundIsMadeOnceAlthoughTheResponseIsLost(t *testing.T) {
	b := &bank{}
	h, err := b.handler(memstore.New())
	if err != nil {
		t.Fatal(err)
	}
	faults := servertest.ScriptNext(servertest.ResetAfterEffect(), servertest.DuplicateAtOnce())
	srv := servertest.New(t, faults, servertest.Bare(), servertest.Handler(h)) // the handler has its own middleware
	client, err := redo.New(redo.WithCredentials(func(r *http.Request) error {
		r.Header.Set("X-Customer", "alice")
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx := redo.WithKey(t.Context(), "refund-1")
	if _, err := redo.Call[any](ctx, client, http.MethodPost, srv.URL+"/refunds",
		map[string]int{"amount": 1000}); err != nil {
		t.Fatal(err)
	}
	if n := b.refunds.Load(); n != 1 {
		t.Errorf("%d refunds for one key", n)
	}
}
