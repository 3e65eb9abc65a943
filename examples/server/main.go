// Server is an HTTP service with one safe endpoint. A repeated request gets the first response, and the handler runs
// once. Each key belongs to the customer who sent it.
//
//	$ go run ./examples/server
//	alice, k1, 1000: 201 stored {"id":"rf_1","amount":1000}
//	alice, k1, 1000: 201 replayed {"id":"rf_1","amount":1000}
//	alice, k1, 2000: 409 CONFLICT.idempotency.payload_mismatch
//	bob, k1, 1000: 201 stored {"id":"rf_2","amount":1000}
//
// With an address such as ":8080" as its argument it serves until it is interrupted, and keeps its records in
// refunds.redo.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/boltstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if len(os.Args) > 1 {
		err = serve(ctx, os.Args[1], "refunds.redo", nil)
	} else {
		err = demo(ctx)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// serve serves until ctx ends. It calls up with the service's URL when the service listens.
func serve(ctx context.Context, address, file string, up func(url string)) error {
	st, err := boltstore.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	once, err := server.New(st, server.Required(), server.Principal(customer), server.Wait(5*time.Second))
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /refunds", once(http.HandlerFunc(createRefund)))
	srv := &http.Server{
		Handler:           authenticate(mux), // outside of the middleware: it runs before each replay too
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       2 * time.Minute,
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	if up != nil {
		up("http://" + l.Addr().String())
	}
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	return errors.Join(srv.Shutdown(grace), ignoreClosed(<-served))
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// authenticate refuses requests without credentials. A real service checks the password.
func authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if customer(r) == "" {
			http.Error(w, "credentials are missing", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// customer returns the authenticated caller. It must stay the same when a token is renewed.
func customer(r *http.Request) string {
	name, _, _ := r.BasicAuth()
	return name
}

var refunds atomic.Int64

// createRefund is a handler like any other. Its refusals are stored and replayed too.
func createRefund(w http.ResponseWriter, r *http.Request) {
	var in struct{ Amount int }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Amount <= 0 {
		http.Error(w, "the amount must be positive", http.StatusUnprocessableEntity)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"id":"rf_%d","amount":%d}`, refunds.Add(1), in.Amount)
}
