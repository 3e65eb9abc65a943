// Command gateway puts a gateway between phones and a payment service. It sends every tap twice, over a link that loses
// requests and responses, and kills the gateway meanwhile. It then compares the taps with the effects of the service.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redo-go/redo/gateway"
	"github.com/redo-go/redo/store/boltstore"
)

func main() {
	var err error
	if upstream := os.Getenv("UPSTREAM"); upstream != "" {
		err = serve(upstream, os.Getenv("ADDRESS"), os.Getenv("FILE"))
	} else {
		err = story()
	}
	if err != nil {
		log.Fatal(err)
	}
}

// serve is all that a service's own main needs.
func serve(upstream, address, file string) error {
	st, err := boltstore.Open(file)
	if err != nil {
		return err
	}
	target, err := url.Parse(upstream)
	if err != nil {
		return err
	}
	g, err := gateway.New(target, st, gateway.Principal(user), gateway.Secret([]byte("from a vault, 16 bytes or more")))
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() { log.Print(g.Run(ctx)) }() // continues the operations of a killed gateway
	srv := &http.Server{Addr: address, Handler: g, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute}
	served := make(chan error, 1)
	go func() { served <- srv.ListenAndServe() }()
	fmt.Println("serving")
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return errors.Join(srv.Shutdown(grace), g.Shutdown(grace), st.Close())
}

// user returns the authenticated user. A real service checks a token here.
func user(r *http.Request) string { return r.Header.Get("X-User") }
