// Stripe refunds a payment through stripe-go over redo. The first response is lost, and the request is sent again under
// the same key. The same code after a crash or a restart finds the operation in the file: it makes no second refund.
//
//	$ go run ./verify/sdks/stripe
//	refund re_1
//	refund re_1
//	Stripe received 2 requests and made 1 refund
//
// With the URL of the API as its argument it uses the secret key in STRIPE_SECRET_KEY and the payment in
// PAYMENT_INTENT.
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
	"path/filepath"
	"time"

	"github.com/stripe/stripe-go/v85"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/profile"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store/boltstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	run := demo
	if len(os.Args) > 1 {
		run = func(ctx context.Context) error {
			return refund(ctx, os.Args[1], os.Getenv("STRIPE_SECRET_KEY"), os.Getenv("PAYMENT_INTENT"), "payments.redo")
		}
	}
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

// refund refunds 10.00 of a payment once, however often it is called.
func refund(ctx context.Context, url, key, payment, file string) error {
	ops, err := boltstore.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = ops.Close() }()
	client, err := redo.New(redo.WithStore(ops), redo.WithProfile(profile.Stripe))
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	sc := stripe.NewClient(key, stripe.WithBackends(stripe.NewBackendsWithConfig(&stripe.BackendConfig{
		HTTPClient:        &http.Client{Transport: client.Transport(), Timeout: time.Minute},
		MaxNetworkRetries: stripe.Int64(0), // one layer retries
		URL:               stripe.String(url),
		EnableTelemetry:   stripe.Bool(false), // it is a header that differs in each call
	})))

	ctx, report := redo.WithReport(redo.WithOperation(ctx, "refund:"+payment+":1000"))
	out, err := sc.V1Refunds.Create(ctx, &stripe.RefundCreateParams{
		PaymentIntent: stripe.String(payment), Amount: stripe.Int64(1000),
	})
	if e := report.Err(); e != nil {
		return fmt.Errorf("effect %s, safe to run again: %t: %w", e.Effect, redo.SafeToRetry(e), errors.Join(e, err))
	}
	if err != nil {
		return err
	}
	fmt.Println("refund", out.ID)
	return nil
}

// demo runs refund twice against a local stand-in for Stripe, which loses its first response.
func demo(ctx context.Context) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	api, err := servertest.Serve(l, log.Printf, servertest.ScriptNext(servertest.ResetAfterEffect()),
		servertest.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			effect, err := servertest.Effect(r.Context())
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"id":"re_%d","object":"refund"}`, effect.Request)
		})))
	if err != nil {
		return err
	}
	defer api.Close()
	dir, err := os.MkdirTemp("", "redo-stripe-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for range 2 {
		if err := refund(ctx, api.URL, "sk_test_redo", "pi_1", filepath.Join(dir, "payments.redo")); err != nil {
			return err
		}
	}
	fmt.Printf("Stripe received %d requests and made %d refund\n", len(api.Requests()), api.Ledger().Total())
	return nil
}
