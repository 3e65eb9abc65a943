// Kubernetes is a service that a cluster may stop at any time. On SIGTERM it fails its readiness probe, ends the
// requests that run, records their outcomes, and closes its store, in this order. The pod's settings are in
// docs/kubernetes.md.
//
//	$ go run ./examples/kubernetes
//	SIGTERM arrives while a payment runs
//	the payment: 201 stored
//	outcomes that are not recorded: 0
//
// With an address such as ":8080" as its argument it serves until it gets the signal.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/boltstore"
)

func main() {
	run := demo
	if len(os.Args) > 1 {
		run = func() error { return serve(os.Args[1], "payments.redo", 5*time.Second, func(string) {}) }
	}
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// serve serves until SIGTERM. pause is the time that the cluster may need to stop sending requests to this pod.
// The pod's terminationGracePeriodSeconds must be longer than pause and the 70 s together.
func serve(address, file string, pause time.Duration, up func(url string)) error {
	st, err := boltstore.Open(file)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var background server.Background
	once := server.Middleware(st, server.Required(), server.Principal(customer), server.RunIn(&background))
	mux := http.NewServeMux()
	mux.Handle("POST /payments", once(http.HandlerFunc(createPayment)))
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if ctx.Err() != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return errors.Join(err, st.Close())
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	up("http://" + l.Addr().String())
	select {
	case err := <-served:
		return errors.Join(err, st.Close())
	case <-ctx.Done():
	}
	time.Sleep(pause) // the service's endpoints forget this pod
	grace, cancel := context.WithTimeout(context.Background(), 70*time.Second)
	defer cancel()
	err = srv.Shutdown(grace)                          // no request comes in after this
	err = errors.Join(err, background.Shutdown(grace)) // no request is running, no outcome is waiting
	fmt.Println("outcomes that are not recorded:", background.Len())
	return errors.Join(err, st.Close())
}

// customer returns the authenticated caller. A real service checks the password before the middleware runs.
func customer(r *http.Request) string {
	name, _, _ := r.BasicAuth()
	return name
}

var running = make(chan struct{}, 1)

// createPayment is an example of work that takes a while.
func createPayment(w http.ResponseWriter, _ *http.Request) {
	select {
	case running <- struct{}{}:
	default: // only the demonstration waits for it
	}
	time.Sleep(100 * time.Millisecond)
	w.WriteHeader(http.StatusCreated)
}
