// Client makes a refund through an API whose first response is lost. The client sends the request again under the same
// key, and the refund is made once. The second run of the same code sends nothing.
//
//	$ go run ./examples/client
//	refund rf_1 after 2 attempts
//	refund rf_1 after 0 attempts
//	the API received 2 requests and made 1 refund
//
// With a URL as its argument it makes the refund there, and keeps the operation in payments.redo.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/taxonomy"
)

// A RefundRequest is the body of a refund's request. The amount is in cents.
type RefundRequest struct {
	Charge string `json:"charge"`
	Amount int    `json:"amount"`
}

// A Refund is the API's response.
type Refund struct {
	ID string `json:"id"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if len(os.Args) > 1 {
		err = refund(ctx, os.Args[1], "payments.redo")
	} else {
		err = demo(ctx)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// refund refunds a charge once, however often it is called. The store's file keeps the operation over a crash.
func refund(ctx context.Context, url, file string) error {
	ops, err := boltstore.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = ops.Close() }()
	client, err := redo.New(redo.WithStore(ops))
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()

	// The name identifies the operation: the same name has the same key, in every run.
	ctx, report := redo.WithReport(redo.WithOperation(ctx, "refund:ch_9ab:1000"))
	out, err := redo.Call[Refund](ctx, client, "POST", url+"/refunds", RefundRequest{Charge: "ch_9ab", Amount: 1000})
	if err != nil {
		return explain(err)
	}
	fmt.Printf("refund %s after %d attempts\n", out.ID, len(report.Attempts()))
	return nil
}

// explain adds the next step to an error.
func explain(err error) error {
	var e *redo.Error
	switch {
	case errors.Is(err, taxonomy.PayloadMismatch):
		return fmt.Errorf("a bug: another refund has this name: %w", err)
	case redo.SafeToRetry(err):
		return fmt.Errorf("run this again, now or tomorrow: %w", err)
	case errors.As(err, &e) && e.Effect == redo.NotApplied:
		return fmt.Errorf("nothing was refunded: %w", err)
	}
	return fmt.Errorf("read the charge back, and settle the operation: %w", err)
}

// demo runs refund twice against a local API that loses its first response.
func demo(ctx context.Context) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	api, err := servertest.Serve(l, log.Printf, servertest.ScriptNext(servertest.ResetAfterEffect()))
	if err != nil {
		return err
	}
	defer api.Close()
	dir, err := os.MkdirTemp("", "redo-client-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for range 2 {
		if err := refund(ctx, api.URL, filepath.Join(dir, "payments.redo")); err != nil {
			return err
		}
	}
	fmt.Printf("the API received %d requests and made %d refund\n", len(api.Requests()), api.Ledger().Total())
	return nil
}
