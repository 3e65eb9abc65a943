// Webhooks sends a webhook for each refund, and receives it once. Copy sender.go for a service that sends webhooks, and
// receiver.go for one that receives them. The client sends its request twice. The response to the first delivery is
// lost.
//
//	$ go run ./examples/webhooks
//	bank: 201 stored
//	bank: 201 replayed
//	shop: refund-re_1-created: 200 stored, and the response is lost
//	shop: refund-re_1-created: 200 replayed
//	refunds in the ledgers: bank 1, shop 1
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/webhook"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "redo-webhooks-")
	if err == nil {
		err = errors.Join(demo(ctx, dir), os.RemoveAll(dir))
	}
	if err != nil {
		log.Fatal(err)
	}
}

func demo(ctx context.Context, dir string) error {
	shop, err := boltstore.Open(filepath.Join(dir, "shop.redo"))
	if err != nil {
		return err
	}
	defer func() { _ = shop.Close() }()
	bank, err := boltstore.Open(filepath.Join(dir, "bank.redo"))
	if err != nil {
		return err
	}
	defer func() { _ = bank.Close() }()
	secret, err := webhook.NewSecret(nil)
	if err != nil {
		return err
	}
	receiver, err := newReceiver(shop, secret)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	srv := httptest.NewServer(lossy(receiver, stop))
	defer srv.Close()
	s, err := newSender(ctx, bank, srv.URL+"/webhooks/bank")
	if err != nil {
		return err
	}
	refunds, err := s.handler()
	if err != nil {
		return err
	}
	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/refunds", strings.NewReader(`{"amount":1000}`))
		r.SetBasicAuth("alice", "secret")
		r.Header.Set("Idempotency-Key", "refund-1")
		w := httptest.NewRecorder()
		refunds.ServeHTTP(w, r)
		fmt.Println("bank:", w.Code, w.Header().Get("Idempotency-Status"))
	}
	loopback, err := webhook.Transport(webhook.Allow(netip.MustParsePrefix("127.0.0.0/8")))
	if err != nil {
		return err
	}
	// The default schedule takes three days. This one is as long as the demo.
	err = s.relay(ctx, secret, loopback, outbox.Retry(100*time.Millisecond), outbox.PollInterval(50*time.Millisecond))
	if err != nil {
		return err
	}
	fmt.Printf("refunds in the ledgers: bank %d, shop %d\n", entries(bank), entries(shop))
	return nil
}

// lossy loses the first response of h, and calls stop after the second.
func lossy(h http.Handler, stop func()) http.Handler {
	deliveries := 0
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		line := fmt.Sprint("shop: ", r.Header.Get(webhook.HeaderID), ": ", rec.Code, " ",
			rec.Header().Get("Idempotency-Status"))
		if deliveries++; deliveries == 1 {
			fmt.Println(line + ", and the response is lost")
			panic(http.ErrAbortHandler)
		}
		fmt.Println(line)
		stop()
	})
}

func entries(st *boltstore.Store) (n int) {
	_ = st.View(context.Background(), func(tx *boltstore.Tx) error {
		n = tx.Bucket([]byte("ledger")).Stats().KeyN
		return nil
	})
	return n
}
