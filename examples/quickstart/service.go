package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/redo-go/redo/internal/stage"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
)

// The requests and the response of the service.
type (
	// PaymentRequest is the body of a request for a payment. Amounts are in cents.
	PaymentRequest struct {
		Reference string `json:"reference"`
		Amount    int    `json:"amount"`
	}
	// RefundRequest gives part of a payment, or all of it, back.
	RefundRequest struct {
		Reference string `json:"reference"`
		Payment   string `json:"payment"`
		Amount    int    `json:"amount"`
	}
	// VoidRequest takes a whole payment back.
	VoidRequest struct {
		Reference string `json:"reference"`
		Payment   string `json:"payment"`
	}
	// Receipt is the body of each response.
	Receipt struct {
		ID     string `json:"id"`
		Amount int    `json:"amount"`
	}
)

// newService returns the service. Each of its three routes creates or reverses something. The middleware in front
// of it makes each take effect once per key.
func newService(st store.Store, book *ledger, say func(string, ...any)) http.Handler {
	// One client calls this service, so its keys are shared. A service with several customers uses server.Principal.
	//
	// A process that dies between an effect and its record leaves the key to the next request. This service can
	// find the effect in its ledger, so it does that instead of running again.
	once := server.Middleware(st, server.Required(), server.SharedKeys(), server.TakeOver(server.Recover(
		func(_ context.Context, _ *http.Request, key string, _ []byte) (http.Handler, error) {
			if entry, found := book.find(key); found {
				say("finds in its ledger the effect of this key, made before it died: %s", entry.ID)
				return receipt(entry), nil
			}
			return nil, nil // it did nothing: run
		})))
	mux := http.NewServeMux()
	mux.Handle("POST /payments", once(apply(book.pay, say)))
	mux.Handle("POST /refunds", once(apply(book.refund, say)))
	mux.Handle("POST /voids", once(apply(book.void, say)))
	return mux
}

// apply is a handler as any service has it: it notes the key, and knows nothing of retries.
func apply[T any](effect func(string, T) (Entry, error), say func(string, ...any)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in T
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, "the body is not JSON", http.StatusBadRequest)
			return
		}
		entry, err := effect(server.Key(r.Context()), in)
		switch {
		case errors.Is(err, errRefused):
			say("%v", err)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnprocessableEntity)
			_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{
				"code": "VALIDATION.amount", "message": err.Error(),
			}})
			return
		case err != nil:
			http.Error(w, "the ledger can't be written", http.StatusInternalServerError)
			return
		}
		say("%s %s of %s applied, entry %d of the ledger", entry.Kind, entry.ID, cents(entry.Amount), entry.Number)
		receipt(entry).ServeHTTP(w, r)
	})
}

// receipt responds with an effect.
func receipt(e Entry) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(Receipt{ID: e.ID, Amount: e.Amount})
	})
}

// serve is the service's process. It runs until it is killed.
func serve(r role) error {
	st, err := boltstore.Open(r.File)
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	book, err := openLedger(r.Ledger)
	if err != nil {
		return err
	}
	stage.On("entries", func([]string) (any, error) { return book.entries(), nil })
	voice := stage.Voice("service")
	voice.Say("up, with %d entries in its ledger", len(book.entries()))
	return stage.Serve(r.Address, voice, newService(st, book, voice.Say))
}

func cents(n int) string { return fmt.Sprintf("%d.%02d", n/100, n%100) }
