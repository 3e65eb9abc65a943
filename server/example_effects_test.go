package server_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/memstore"
)

type payment struct{ ID string }

// acquiring is busy at its first request and loses its second response.
type acquiring struct {
	ErrBusy error
	charges int
}

func (a *acquiring) Charge(_ context.Context, key string, _ int) (payment, error) {
	a.charges++
	switch a.charges {
	case 1:
		return payment{}, a.ErrBusy
	case 2:
		return payment{}, errors.New("connection reset")
	}
	return payment{ID: "pay_" + key}, nil
}

var acquirer = &acquiring{ErrBusy: errors.New("busy")}

func customer(*http.Request) string { return "account-1" }

func createPayment(w http.ResponseWriter, r *http.Request) {
	payment, err := acquirer.Charge(r.Context(), "charge:"+customer(r)+":"+server.Key(r.Context()), 1000)
	switch {
	case errors.Is(err, acquirer.ErrBusy):
		server.Release(r.Context()) // the acquirer has done nothing
		http.Error(w, "busy", http.StatusServiceUnavailable)
		return
	case err != nil:
		server.Unknown(r.Context()) // the response of the acquirer was lost
		http.Error(w, "unknown", http.StatusGatewayTimeout)
		return
	}
	if err := server.Applied(r.Context()); err != nil {
		log.Printf("payment %s is not marked: %v", payment.ID, err)
	}
	w.WriteHeader(http.StatusCreated)
}

// The handler reports its effect, and the service stops in the order of docs/effects.md.
func ExampleApplied_reports() {
	ctx, st, srv := context.Background(), memstore.New(), &http.Server{}
	var background server.Background
	once := server.Middleware(st, server.Required(), server.Principal(customer), server.RunIn(&background))
	h := once(http.HandlerFunc(createPayment))
	for range 4 {
		r := httptest.NewRequest(http.MethodPost, "/payments", nil)
		r.Header.Set("Idempotency-Key", "k1")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("Idempotency-Status") == "replayed")
	}
	fmt.Println("charges:", acquirer.charges)
	srv.Shutdown(ctx)        // no request comes in after this
	background.Shutdown(ctx) // no request is running, and no outcome is waiting after this
	st.Close()
	// Output:
	// 503 false
	// 504 false
	// 201 false
	// 201 true
	// charges: 3
}
